import { readExternalKey } from '../../model/encoding/envelope.ts';

const referencePattern = /~perdure2:[\w./-]+/g;

/** The keys of the external payloads that a stored text refers to. */
export function externalKeysIn(text: string): readonly string[] {
  return [...text.matchAll(referencePattern)].flatMap(
    ([reference]) => readExternalKey(reference) ?? [],
  );
}
