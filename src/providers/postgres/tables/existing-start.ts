import type { DefinitionKind, Definitions } from './definitions.ts';
import type { StartRow } from './instance-rows.ts';

/** The answer for a start whose id is taken: this very one was made before, or the id belongs to another. */
export function knownStart(
  definitions: Definitions,
  wanted: { readonly kind: DefinitionKind; readonly name: string; readonly inputHash: string },
  existing: StartRow,
): { readonly kind: 'exists' } | { readonly kind: 'conflict'; readonly name: string } {
  const { kind, name } = definitions.get(existing.definitionKey);
  const isSame =
    kind === wanted.kind && name === wanted.name && existing.inputHash === wanted.inputHash;
  return isSame ? { kind: 'exists' } : { kind: 'conflict', name };
}
