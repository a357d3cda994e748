/**
 * Reports words that hide the actor, with a suggestion each. Fails for README.md, the guides and references in docs/, and the
 * messages of src/ (errors, logs, descriptions). Comments are counted only; `--all` lists them.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync, Visitor } from 'oxc-parser';
import { findVoiceWords, withoutCodeBlocks, type Finding } from './voice-words.ts';

const root = join(import.meta.dirname, '..');
const DOCUMENTS = '{README,ARCHITECTURE,CONTRIBUTING,SECURITY}.md';
const GUIDES = 'docs/{*,guides/*,decisions/*}.md';
/** Written from the wording of the documents that it maps. */
const QUOTES = ['docs/seed-tests.md'];

interface Located extends Finding {
  readonly file: string;
}

/** Text at the place it has in its file, so that lines are right. */
function at(
  source: string,
  { start, end }: { readonly start: number; readonly end: number },
): string {
  const lines = source.slice(0, start).split('\n').length - 1;
  return '\n'.repeat(lines) + source.slice(start, end);
}

/** Whether a literal is prose: several words, and no SQL. */
function isMessage(literal: string): boolean {
  return (
    /\w \w+ \w/.test(literal) && !/\b(?:SELECT|INSERT|UPDATE|DELETE|WHERE|CREATE)\b/.test(literal)
  );
}

function locate(file: string, text: string): Located[] {
  return findVoiceWords(text).map((finding) => ({ file, ...finding }));
}

function inDocuments(): Located[] {
  const files = globSync([DOCUMENTS, GUIDES], { cwd: root }).map((path) =>
    path.replaceAll('\\', '/'),
  );
  if (files.length < 10) throw new Error(`Only ${files.length} documents found below ${root}.`);
  return files
    .filter((file) => !QUOTES.includes(file))
    .flatMap((file) => locate(file, withoutCodeBlocks(readFileSync(join(root, file), 'utf8'))));
}

/** The messages of a module, and its comments. */
function inModule(file: string, source: string): { messages: Located[]; comments: Located[] } {
  const { program, comments } = parseSync(file, source);
  const messages: Located[] = [];
  new Visitor({
    Literal: (node) => {
      if (typeof node.value === 'string' && isMessage(node.value))
        messages.push(...locate(file, at(source, node)));
    },
    TemplateLiteral: (node) => {
      const text = node.quasis.map(({ value }) => value.raw).join(' ');
      if (isMessage(text)) messages.push(...locate(file, at(source, node)));
    },
  }).visit(program);
  return { messages, comments: comments.flatMap((comment) => locate(file, at(source, comment))) };
}

const modules = globSync('src/**/*.ts', { cwd: root })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((file) => !file.endsWith('.test.ts') && !file.startsWith('src/testing/conformance/'))
  .map((file) => inModule(file, readFileSync(join(root, file), 'utf8')));

const failures = [...inDocuments(), ...modules.flatMap(({ messages }) => messages)];
const comments = modules.flatMap((module) => module.comments);

// A canary: the check must be able to find this.
const canary = inModule(
  'canary.ts',
  "/** Nobody reads. */\nthrow new Error('Whoever asks is told.');",
);
if (canary.messages.length !== 2 || canary.comments.length !== 1)
  throw new Error('The canary was not found.');

const show = ({ file, line, word, suggestion }: Located): string =>
  `${file}:${line} "${word}": ${suggestion}`;
for (const finding of failures) console.error(show(finding));
if (process.argv.includes('--all')) for (const finding of comments) console.log(show(finding));
console.log(
  `${modules.length} modules read: ${failures.length} in documents and messages, ${comments.length} in comments.`,
);
if (failures.length > 0 || modules.length === 0) process.exitCode = 1;
