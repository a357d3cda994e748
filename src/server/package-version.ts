import { readFileSync } from 'node:fs';

let version: string | undefined;

/** Returns the version of this package. */
export function packageVersion(): string {
  if (version === undefined) {
    const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
    version = (JSON.parse(text) as { readonly version: string }).version;
  }
  return version;
}
