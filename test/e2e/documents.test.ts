import { execFile } from 'node:child_process';
import {
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { root } from './run-program.ts';

const documents = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  ...globSync('docs/**/*.md', { cwd: root }),
];

interface Snippet {
  readonly document: string;
  /** The example file named in the source comment. */
  readonly source: string | undefined;
  readonly code: string;
}

function snippetsOf(document: string): Snippet[] {
  const text = readFileSync(join(root, document), 'utf8');
  const blocks = text.matchAll(/(?:<!-- from (\S+) -->\n+)?```ts\n(.*?)```/gs);
  return [...blocks].map(([, source, code]) => ({ document, source, code: code ?? '' }));
}

const snippets = documents.flatMap(snippetsOf);

/** The anchors that GitHub gives the headings of a document. */
function anchorsOf(document: string): ReadonlySet<string> {
  const text = readFileSync(join(root, document), 'utf8').replaceAll(/^```.*?^```/gms, '');
  return new Set(
    [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .trim()
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  );
}

describe('documents', () => {
  it.each(documents)('%s links only to existing files', (document) => {
    const text = readFileSync(join(root, document), 'utf8');
    const links = [...text.matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)].map(
      ([, to]) => to ?? '',
    );
    const missing = links.filter((to) => !existsSync(join(root, dirname(document), to)));
    expect(missing).toEqual([]);
  });

  it.each(documents)('%s links only to existing headings', (document) => {
    const text = readFileSync(join(root, document), 'utf8');
    const missing = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)].filter(
      ([, to, anchor]) => {
        const target = to ? join(dirname(document), to) : document;
        return target.endsWith('.md') && !anchorsOf(target).has(anchor ?? '');
      },
    );
    expect(missing.map(([link]) => link)).toEqual([]);
  });

  it.each([
    ['OpenOptions', 'src/perdure.ts', ['operations.md', 'scaling-out.md']],
    ['WorkerOptions', 'src/runtime/options.ts', ['operations.md']],
    ['SqliteOptions', 'src/providers/sqlite/provider.ts', ['operations.md']],
    ['PostgresOptions', 'src/providers/postgres/driver/options.ts', ['scaling-out.md']],
    ['StartOptions', 'src/client/starting/start-request.ts', ['writing-orchestrations.md']],
    [
      'CommonStartOptions',
      'src/model/start-settings.ts',
      ['writing-orchestrations.md', 'tasks.md'],
    ],
    ['RunTaskOptions', 'src/client/starting/task-request.ts', ['tasks.md']],
    ['TaskOptions', 'src/tasks/task.ts', ['tasks.md']],
    ['ScheduleTiming', 'src/client/managing/schedule-request.ts', ['schedules.md']],
    ['HandlerOptions', 'src/server/handler.ts', ['server.md']],
    ['ServeOptions', 'src/server/serve.ts', ['server.md']],
    ['ConnectOptions', 'src/remote/connect-options.ts', ['remote-client.md']],
    ['OpenSessionOptions', 'src/jobs/session-info.ts', ['attached-work.md']],
    ['OtelOptions', 'src/otel/otel.ts', ['telemetry.md']],
  ])('the guides describe every option of %s', (name, source, guides) => {
    const code = readFileSync(join(root, source), 'utf8');
    const body = new RegExp(`interface ${name}\\b[^{]*\\{(.*?)\\n\\}`, 's').exec(code)?.[1] ?? '';
    const options = [...body.matchAll(/^ {2}readonly (\w+)\?:/gm)].map(([, option]) => option);
    const text = guides
      .map((guide) => readFileSync(join(root, 'docs/guides', guide), 'utf8'))
      .join();
    expect(options).not.toEqual([]);
    expect(options.filter((option) => !new RegExp(`[\`.]${option}\\b`).test(text))).toEqual([]);
  });

  it.each([
    ['src/client/client.ts', 'client.md'],
    ['src/client/reading-client.ts', 'client.md'],
    ['src/client/handle.ts', 'client.md'],
    ['src/orchestration/orchestration-context.ts', 'writing-orchestrations.md'],
  ])('the methods of %s are in %s', (source, guide) => {
    const code = readFileSync(join(root, source), 'utf8');
    const methods = [...code.matchAll(/^ {2}(?:async )?\*?([a-z]\w+)(?:<.*)?\(/gm)].map(
      ([, name]) => name ?? '',
    );
    const text = readFileSync(join(root, 'docs/guides', guide), 'utf8');
    const internal = new Set(['constructor', 'assertOpen', 'taskHandle', 'raise']);
    const missing = methods.filter(
      (name) => !internal.has(name) && !new RegExp(`[\`.]${name}\\b`).test(text),
    );
    expect(methods.length).toBeGreaterThan(10);
    expect([...new Set(missing)]).toEqual([]);
  });

  it('ARCHITECTURE.md names only existing files', () => {
    const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
    const named = [...text.matchAll(/`([\w./-]+\/[\w.-]*)`/g)].map(([, name]) => name ?? '');
    const missing = named.filter(
      (name) => !['', 'src'].some((base) => existsSync(join(root, base, name))),
    );
    expect(missing).toEqual([]);
    expect(named.length).toBeGreaterThan(20);
  });

  it('every README snippet names the example it comes from', () => {
    const own = snippets.filter(({ document, source }) => document === 'README.md' && !source);
    expect(own).toEqual([]);
    expect(snippets.filter(({ document }) => document === 'README.md')).not.toEqual([]);
  });

  it('a snippet with a source comment is a verbatim part of that file', () => {
    for (const { source, code } of snippets) {
      if (source === undefined) continue;
      expect(readFileSync(join(root, source), 'utf8')).toContain(code);
    }
  });

  it('every snippet without a source comment compiles on its own', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'perdure-snippets-'));
    try {
      const own = snippets.filter(({ source }) => source === undefined);
      const names = own.map(
        ({ document }, index) => `${document.replaceAll('/', '-')}-${index}.mts`,
      );
      own.forEach(({ code }, index) => writeFileSync(join(folder, names[index] ?? ''), code));
      symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(snippetConfig()));
      const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
      const output = await promisify(execFile)(tsc, ['-p', folder]).then(
        () => '',
        (error: { stdout: string }) => error.stdout,
      );
      expect(output).toBe('');
      expect(own.length).toBeGreaterThan(0);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

function snippetConfig(): object {
  return {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: {
      paths: {
        perdure: [join(root, 'src', 'index.ts')],
        'perdure/*': [join(root, 'src', '*.ts')],
      },
      typeRoots: [join(root, 'node_modules', '@types')],
      noUnusedLocals: false,
    },
    exclude: [],
    include: ['*.mts'],
  };
}
