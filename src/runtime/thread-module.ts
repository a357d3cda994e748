import { existsSync } from 'node:fs';

/**
 * The code of a thread, which stands below this folder as source or as it was built. `undefined` in a bundle, which has no
 * such file; one in the form of CommonJS has no `import.meta` either.
 */
export function findThreadModule(
  name: 'activities/activity-thread' | 'watchdog/watchdog-thread',
): URL | undefined {
  const here = import.meta.url as string | undefined;
  if (here === undefined) return undefined;
  const url = new URL(`./${name}${here.endsWith('.ts') ? '.ts' : '.js'}`, here);
  return existsSync(url) ? url : undefined;
}
