// The folders of this package from which operations are issued: sources, also as named by source maps, or built chunks.
// A CommonJS bundle has no `import.meta.url`.
const here = import.meta.url as string | undefined;
const sources = ['replay/', 'orchestration/', 'flows/'];
const ownFolders =
  here === undefined
    ? []
    : [...sources.map((folder) => `../../../src/${folder}`), '../../chunks/'].map(
        (folder) => new URL(folder, here).pathname,
      );
const maxFrames = 20;

/** Returns the line of user code that calls this package, as in a stack: `order.ts:12:9`. Costs some microseconds. */
export function findCallPlace(): string | undefined {
  const holder: { stack?: string } = {};
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = maxFrames;
  Error.captureStackTrace(holder, findCallPlace);
  const stack = holder.stack ?? '';
  Error.stackTraceLimit = limit;
  const isOwn = (line: string): boolean => ownFolders.some((folder) => line.includes(folder));
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line));
  const first = frames.find((line) => !isOwn(line) && !line.includes('node:'));
  return first?.trim().replace(/^at /, '');
}
