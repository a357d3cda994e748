import { existsSync } from 'node:fs';

/**
 * Returns the module of a thread, as source or as built. Bundles have no such file, so it returns `undefined`.
 * A CommonJS bundle has no `import.meta.url` either.
 */
export function findThreadModule(
  name: 'activities/activity-thread' | 'watchdog/watchdog-thread',
): URL | undefined {
  const here = import.meta.url as string | undefined;
  if (here === undefined) return undefined;
  const url = new URL(`./${name}${here.endsWith('.ts') ? '.ts' : '.js'}`, here);
  return existsSync(url) ? url : undefined;
}
