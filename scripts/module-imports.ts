/** The imports of a module, from its syntax tree: static, type-only, re-exported and dynamic. */
import { parseSync, Visitor } from 'oxc-parser';

export interface ModuleImport {
  /** The specifier as written, or undefined when it is computed and cannot be checked. */
  readonly specifier: string | undefined;
  readonly line: number;
  /** Whether type stripping removes the import. */
  readonly typeOnly: boolean;
}

type Source = { readonly value?: unknown; readonly start: number };

/** Every import of the module in source order; throws when the file does not parse. */
export function moduleImports(path: string, text: string): ModuleImport[] {
  const { program, errors } = parseSync(path, text);
  const [error] = errors;
  if (error !== undefined) throw new Error(`${path} does not parse: ${error.message}`);

  const found: (ModuleImport & { readonly start: number })[] = [];
  const add = (source: Source, typeOnly = false): void => {
    found.push({
      specifier: typeof source.value === 'string' ? source.value : undefined,
      line: text.slice(0, source.start).split('\n').length,
      typeOnly,
      start: source.start,
    });
  };
  new Visitor({
    ImportDeclaration: (node) => add(node.source, node.importKind === 'type'),
    ExportAllDeclaration: (node) => add(node.source, node.exportKind === 'type'),
    ExportNamedDeclaration: (node) => {
      if (node.source !== null) add(node.source, node.exportKind === 'type');
    },
    ImportExpression: (node) => add(node.source),
    TSImportType: (node) => add(node.source, true),
  }).visit(program);
  return found.sort((a, b) => a.start - b.start);
}
