import type { DefinitionKind, Definitions } from './definitions.ts';
import type { InstanceRows } from './instance-rows.ts';

/** By what a repeated start is recognised. */
interface Start {
  readonly instanceId: string;
  readonly name: string;
  readonly inputHash: string;
}

/** The answer for a start whose id is taken: this very one was made before, or the id belongs to another. */
export function knownStart(
  {
    instances,
    definitions,
  }: { readonly instances: InstanceRows; readonly definitions: Definitions },
  kind: DefinitionKind,
  { instanceId, name, inputHash }: Start,
): { readonly kind: 'exists' } | { readonly kind: 'conflict'; readonly name: string } {
  const existing = instances.findStart(instanceId);
  if (existing === undefined) throw new Error('An instance that is there cannot be read.');
  const definition = definitions.get(existing.definitionKey);
  const isSame =
    definition.kind === kind && definition.name === name && existing.inputHash === inputHash;
  return isSame ? { kind: 'exists' } : { kind: 'conflict', name: definition.name };
}
