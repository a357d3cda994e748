import { takeReply } from '../../client/updating/update-errors.ts';
import { readPayload } from '../../model/encoding/encoded-value.ts';
import { isPerdureError } from '../../model/failures/errors.ts';
import { encodePayload } from '../../model/values/payload.ts';
import { randomToken } from '../../model/values/random-id.ts';
import { toWireError } from '../http/errors.ts';
import { longestPollMs } from '../routes/route.ts';
import type { updateRoutes } from '../routes/updates.ts';
import type { Handlers } from '../server-context.ts';
import { firstSettled, pageByBytes } from './long-poll.ts';

export const updateHandlers: Handlers<typeof updateRoutes> = {
  async updateInstance({ params, body }, { client }) {
    const { name, input, key = randomToken(), timeoutMs = longestPollMs } = body;
    try {
      const output = await client.update(params.id, name, input, { key, timeout: timeoutMs });
      return { status: 'completed', key, ...(output !== undefined && { output }) };
    } catch (error) {
      if (!isPerdureError(error, 'TIMEOUT')) throw error;
      return { status: 'pending', key };
    }
  },
  async waitForUpdates({ body, signal }, { updates, showStacks }) {
    const { timeoutMs = longestPollMs } = body;
    const results = await firstSettled(timeoutMs, signal, (inner) =>
      body.updates.map(async (update) => {
        const { id, key } = update;
        try {
          const payload = takeReply(update, await updates.wait(update, inner));
          return { id, key, payload };
        } catch (error) {
          // The server is closing: the client repeats the request.
          const isClosing = inner.aborted || isPerdureError(error, 'CLOSED');
          if (isClosing || !isPerdureError(error)) throw error;
          return { id, key, error: toWireError(error, showStacks) };
        }
      }),
    );
    const lengthOf = (one: (typeof results)[number]): number =>
      'error' in one ? 0 : (one.payload?.length ?? 0);
    return {
      results: pageByBytes(results, lengthOf).map((one) => {
        if ('error' in one) return one;
        const { id, key, payload } = one;
        return { id, key, ...(payload !== null && { output: readPayload(payload) }) };
      }),
    };
  },
  async resolveAwakeable({ params, body }, { updates, payloadLimitBytes }) {
    const { value, key = randomToken() } = body;
    const payload = encodePayload(value, 'The value', payloadLimitBytes);
    await updates.answerAwakeable({ ...params, key, answer: { kind: 'resolve', payload } });
    return {};
  },
  async rejectAwakeable({ params, body }, { updates }) {
    const { reason = 'rejected', name = 'Error', code, details, key = randomToken() } = body;
    const failure = {
      name,
      message: reason,
      ...(code !== undefined && { code }),
      ...(details !== undefined && { details }),
    };
    await updates.answerAwakeable({ ...params, key, answer: { kind: 'reject', failure } });
    return {};
  },
};
