import { readPayload } from '../../model/encoding/encoded-value.ts';
import { isPerdureError } from '../../model/failures/errors.ts';
import { checkInstanceId } from '../../model/values/names.ts';
import { checkStateKey } from '../../model/values/state.ts';
import type { StateRequest } from '../../providers/contract/state.ts';
import { toWireError } from '../http/errors.ts';
import type { RequestOf } from '../routes/route.ts';
import { longestPollMs } from '../routes/route.ts';
import type { stateRoutes } from '../routes/state.ts';
import type { Handlers } from '../server-context.ts';
import { firstSettled, pageByBytes } from './long-poll.ts';

type WaitRequest = RequestOf<(typeof stateRoutes)['waitForStates']>['body']['waits'][number];

export const stateHandlers: Handlers<typeof stateRoutes> = {
  async readState({ params, query }, { states }) {
    const { key, after = '' } = query;
    const wanted = key === undefined ? undefined : checkStateKey(key);
    const records = await states.records(checkInstanceId(params.id), wanted);
    const rest = after === '' ? records : afterKey(records, after);
    const page = pageByBytes(rest, ({ payload }) => payload.length);
    const nextKey = page.length < rest.length ? page.at(-1)?.key : undefined;
    const items = page.map((entry) => ({
      key: entry.key,
      value: readPayload(entry.payload),
      version: entry.version,
    }));
    return { items, ...(nextKey !== undefined && { nextKey }) };
  },
  async waitForStates({ body, signal }, { states, showStacks }) {
    const { waits, timeoutMs = longestPollMs } = body;
    const requests = waits.map(toRequest);
    const results = await firstSettled(timeoutMs, signal, (inner) =>
      requests.map(async (request, place) => {
        try {
          return { place, found: await states.waiter.wait(request, undefined, inner) };
        } catch (error) {
          // The server is closing: the client repeats the request.
          const isClosing = inner.aborted || isPerdureError(error, 'CLOSED');
          if (isClosing || !isPerdureError(error)) throw error;
          return { place, error: toWireError(error, showStacks) };
        }
      }),
    );
    const lengthOf = (one: (typeof results)[number]): number =>
      'found' in one ? (one.found.payload?.length ?? 0) : 0;
    return {
      results: pageByBytes(results, lengthOf).map((one) => {
        if (!('found' in one)) return one;
        const { payload, version } = one.found;
        const value = readPayload(payload);
        return { place: one.place, version, ...(value !== undefined && { value }) };
      }),
    };
  },
};

/** Keys are in the order of their UTF-8 bytes, so the position of the key decides. */
function afterKey<Entry extends { readonly key: string }>(
  entries: readonly Entry[],
  key: string,
): readonly Entry[] {
  const last = entries.findIndex((entry) => entry.key === key);
  if (last !== -1) return entries.slice(last + 1);
  const bytes = Buffer.from(key);
  return entries.filter((entry) => Buffer.compare(Buffer.from(entry.key), bytes) > 0);
}

function toRequest({ id, key, after = 0 }: WaitRequest): StateRequest {
  const instanceId = checkInstanceId(id);
  return key === undefined
    ? { instanceId, what: 'status', after }
    : { instanceId, what: 'state', key: checkStateKey(key), after };
}
