// The folder of this package: src/ or dist/.
const ownFolder = new URL('../../', import.meta.url).href;
const maxFrames = 20;

/** Returns the line of user code that calls this package, as in a stack: `order.ts:12:9`. Costs some microseconds. */
export function findCallPlace(): string | undefined {
  const holder: { stack?: string } = {};
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = maxFrames;
  Error.captureStackTrace(holder, findCallPlace);
  const stack = holder.stack ?? '';
  Error.stackTraceLimit = limit;
  const isOwn = (line: string): boolean =>
    line.includes(ownFolder) || line.includes(ownFolder.replace('file://', ''));
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line));
  const first = frames.find((line) => !isOwn(line) && !line.includes('node:'));
  return first?.trim().replace(/^at /, '');
}
