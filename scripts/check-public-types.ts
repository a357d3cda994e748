/**
 * Checks that docs/api-report/ lists the public types of the package. `--write` updates it. Needs a build.
 *
 * There is one report per entry point: each exported name, in alphabetical order, with its declaration from dist/ without
 * comments, and with those that it extends. A change of the public surface is therefore visible in a diff.
 */
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import ts from 'typescript-5.9';
import { formatDocument } from './format-document.ts';

const root = join(import.meta.dirname, '..');
const dist = `${join(root, 'dist').replaceAll('\\', '/')}/`;
const reports = join(root, 'docs', 'api-report');
const { name: packageName, exports } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
) as { name: string; exports: Record<string, { types: string }> };

const program = ts.createProgram(
  Object.values(exports).map(({ types }) => join(root, types)),
  { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2023, skipLibCheck: true },
);
const checker = program.getTypeChecker();
const printer = ts.createPrinter({ removeComments: true });

/** A symbol behind its imports and re-exports. */
function resolveAlias(symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** The statements that declare a symbol. */
function statementsOf(symbol: ts.Symbol): readonly ts.Node[] {
  return (symbol.declarations ?? []).map((node) =>
    // The keyword `const` is part of the statement around the declaration.
    ts.isVariableDeclaration(node) ? node.parent.parent : node,
  );
}

/** The symbols of dist/ that a declaration names after `extends` or `implements`. */
function basesOf(symbol: ts.Symbol): ts.Symbol[] {
  const found: ts.Symbol[] = [];
  const visit = (node: ts.Node): void => {
    const named = ts.isIdentifier(node) ? checker.getSymbolAtLocation(node) : undefined;
    if (named !== undefined) found.push(resolveAlias(named));
    ts.forEachChild(node, visit);
  };
  for (const node of statementsOf(symbol)) {
    if (!ts.isInterfaceDeclaration(node) && !ts.isClassDeclaration(node)) continue;
    node.heritageClauses?.forEach(visit);
  }
  return found.filter((base) => statementsOf(base)[0]?.getSourceFile().fileName.startsWith(dist));
}

async function reportOf(entry: string, types: string): Promise<string> {
  const file = program.getSourceFile(join(root, types));
  const module = file && checker.getSymbolAtLocation(file);
  if (module === undefined) throw new Error(`${types} is missing: run \`npm run build\`.`);
  const exported = new Map(
    checker.getExportsOfModule(module).map((symbol) => [symbol.name, resolveAlias(symbol)]),
  );
  if (exported.size === 0) throw new Error(`${types} exports nothing.`);
  const known = new Set(exported.values());
  const sections = [...exported.keys()].sort().map((name) => {
    const shown = new Set<ts.Symbol>();
    const add = (symbol: ts.Symbol): void => {
      shown.add(symbol);
      for (const base of basesOf(symbol)) if (!known.has(base) && !shown.has(base)) add(base);
    };
    const symbol = exported.get(name);
    if (symbol !== undefined) add(symbol);
    const nodes = [...shown].flatMap(statementsOf);
    if (nodes.length === 0) throw new Error(`${types}: ${name} has no declaration.`);
    const text = nodes.map((node) =>
      printer.printNode(ts.EmitHint.Unspecified, node, node.getSourceFile()),
    );
    return `## ${name}\n\n\`\`\`typescript\n${text.join('\n\n')}\n\`\`\`\n`;
  });
  const title = `# \`${posix.join(packageName, entry)}\`: ${exported.size} exports`;
  return await formatDocument([title, ...sections].join('\n\n'));
}

const wanted = new Map<string, string>();
for (const [entry, { types }] of Object.entries(exports)) {
  const file = entry === '.' ? packageName : entry.slice(2);
  wanted.set(`${file}.md`, await reportOf(entry, types));
}

if (process.argv.includes('--write')) {
  rmSync(reports, { recursive: true, force: true });
  mkdirSync(reports, { recursive: true });
  for (const [file, text] of wanted) writeFileSync(join(reports, file), text);
}
const differing = [...new Set([...wanted.keys(), ...globSync('*', { cwd: reports })])].filter(
  (file) =>
    !existsSync(join(reports, file)) ||
    readFileSync(join(reports, file), 'utf8') !== wanted.get(file),
);
for (const file of differing) {
  console.error(`docs/api-report/${file} differs from the public types in dist/.`);
}
if (differing.length > 0) {
  console.error(
    'To update the reports: npm run build && node scripts/check-public-types.ts --write',
  );
  process.exitCode = 1;
} else {
  console.log(`${wanted.size} reports agree with the public types.`);
}
