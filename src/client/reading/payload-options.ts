import { invalid } from '../../model/option-fields.ts';

/** Which payloads a read of a history returns. */
export interface PayloadOptions {
  /**
   * `full` (default): whole payloads. `head`: the first `headBytes` of each. `none`: no payloads. The last two also
   * shorten failures and carried events.
   */
  readonly payloads?: 'none' | 'head' | 'full' | undefined;
  /** Maximum bytes of a head, cut between characters. 1 to 65,536. Default 256. */
  readonly headBytes?: number | undefined;
}

const defaultHeadBytes = 256;
const maxHeadBytes = 65_536;

export function readPayloadOptions({
  payloads = 'full',
  headBytes = defaultHeadBytes,
}: {
  readonly payloads?: unknown;
  readonly headBytes?: unknown;
}): { readonly payloads: 'none' | 'head' | 'full'; readonly headBytes: number } {
  if (payloads !== 'none' && payloads !== 'head' && payloads !== 'full') {
    throw invalid('payloads', payloads, `'none', 'head' or 'full'`);
  }
  const isCount = Number.isSafeInteger(headBytes) && (headBytes as number) >= 1;
  if (!isCount || (headBytes as number) > maxHeadBytes) {
    throw invalid('headBytes', headBytes, `a whole number from 1 to ${maxHeadBytes}`);
  }
  return { payloads, headBytes: headBytes as number };
}
