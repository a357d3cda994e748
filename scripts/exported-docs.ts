/** Lists the exports of an entry point, and whether their declarations have doc comments. */
import { posix } from 'node:path';
import { parseSync, type Comment, type Program } from 'oxc-parser';

export interface ExportedName {
  readonly name: string;
  /** The file of the declaration, relative to the root. */
  readonly path: string;
  readonly documented: boolean;
}

type Statement = Program['body'][number];

interface Module {
  readonly path: string;
  readonly text: string;
  readonly body: readonly Statement[];
  readonly comments: readonly Comment[];
}

/** Returns the exports of a module. Throws if a declaration cannot be found. */
export function exportedNames(path: string, readFile: (path: string) => string): ExportedName[] {
  const modules = new Map<string, Module>();
  const load = (file: string): Module => {
    const known = modules.get(file);
    if (known !== undefined) return known;
    const text = readFile(file);
    const { program, comments, errors } = parseSync(file, text);
    if (errors[0] !== undefined) throw new Error(`${file} does not parse: ${errors[0].message}`);
    const module = { path: file, text, body: program.body, comments };
    modules.set(file, module);
    return module;
  };
  const module = load(path);
  return exportsOf(module, load).map((name) => ({ name, ...resolve(module, name, load) }));
}

type Load = (path: string) => Module;

/** Returns the exported names of a module, including those of `export *`. */
function exportsOf(module: Module, load: Load): string[] {
  return module.body.flatMap((statement) => {
    if (statement.type === 'ExportAllDeclaration') {
      return exportsOf(load(target(module, statement.source.value)), load);
    }
    if (statement.type !== 'ExportNamedDeclaration') return [];
    const listed = statement.specifiers.map(({ exported }) => nameOf(exported));
    return [...listed, ...declaredNames(statement)];
  });
}

function resolve(module: Module, name: string, load: Load): Omit<ExportedName, 'name'> {
  for (const statement of module.body) {
    const origin = originOf(module, statement, name, load);
    if (origin !== undefined) return resolve(load(origin.path), origin.name, load);
  }
  const declarations = module.body.filter((statement) => declaredNames(statement).includes(name));
  if (declarations.length === 0) throw new Error(`${module.path}: no declaration of ${name} found`);
  // One comment is enough for overloads, or for a value and its type.
  const documented = declarations.some((statement) => hasDoc(module, statement));
  return { path: module.path, documented };
}

/** Returns the origin of a re-exported or imported name. */
function originOf(module: Module, statement: Statement, name: string, load: Load) {
  if (statement.type === 'ExportNamedDeclaration') {
    const specifier = statement.specifiers.find(({ exported }) => nameOf(exported) === name);
    if (specifier === undefined) return undefined;
    const local = nameOf(specifier.local);
    if (statement.source !== null) {
      return { path: target(module, statement.source.value), name: local };
    }
    return importedAs(module, local);
  }
  if (statement.type === 'ExportAllDeclaration') {
    const path = target(module, statement.source.value);
    return exportsOf(load(path), load).includes(name) ? { path, name } : undefined;
  }
  return undefined;
}

function importedAs(module: Module, local: string) {
  for (const statement of module.body) {
    if (statement.type !== 'ImportDeclaration') continue;
    for (const specifier of statement.specifiers) {
      if (specifier.type === 'ImportSpecifier' && specifier.local.name === local) {
        return { path: target(module, statement.source.value), name: nameOf(specifier.imported) };
      }
    }
  }
  return undefined;
}

function target(module: Module, specifier: string): string {
  return posix.join(posix.dirname(module.path), specifier);
}

function nameOf(node: { readonly name?: string; readonly value?: unknown }): string {
  return node.name ?? String(node.value);
}

/** Returns the names that a statement declares, exported or not. */
function declaredNames(statement: Statement): string[] {
  const declaration =
    statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
  switch (declaration?.type) {
    case 'VariableDeclaration':
      return declaration.declarations.flatMap(({ id }) => ('name' in id ? [id.name] : []));
    case 'FunctionDeclaration':
    case 'TSDeclareFunction':
    case 'ClassDeclaration':
      return declaration.id === null ? [] : [declaration.id.name];
    case 'TSInterfaceDeclaration':
    case 'TSTypeAliasDeclaration':
      return [declaration.id.name];
    default:
      return [];
  }
}

function hasDoc(module: Module, statement: Statement): boolean {
  const before = module.comments.filter(({ end }) => end <= statement.start).at(-1);
  if (before?.type !== 'Block' || !before.value.startsWith('*')) return false;
  return module.text.slice(before.end, statement.start).trim() === '';
}
