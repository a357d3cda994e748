import { existsSync } from 'node:fs';

/**
 * Returns the URL of the entry point that opens a store, for a thread that opens it again. A bundle of an application has no such
 * file, so it returns `undefined`. A CommonJS bundle has no `import.meta.url` either.
 */
export function findEntryModule(name: 'sqlite' | 'postgres'): string | undefined {
  const here = import.meta.url as string | undefined;
  if (here === undefined) return undefined;
  const url = new URL(`../../${name}${here.endsWith('.ts') ? '.ts' : '.js'}`, here);
  return existsSync(url) ? url.href : undefined;
}
