import { z } from 'zod';
import type { Attention } from '../../client/explaining/attention.ts';
import type { DefinitionQueueInfo } from '../../client/reading/queues.ts';
import { time } from './fields.ts';

const kind = z.enum(['orchestration', 'activity', 'task']);
const text = z.string().exactOptional();

function finding<const Kind extends string, Parts extends z.ZodRawShape>(kind: Kind, parts: Parts) {
  return z.strictObject({
    kind: z.literal(kind),
    count: z.number(),
    capped: z.literal(true).exactOptional(),
    oldestAt: time.exactOptional(),
    ...parts,
  });
}

/** The schema of `GET /v1/attention`. */
export function attentionOf(queue: z.ZodType<DefinitionQueueInfo>): z.ZodType<Attention> {
  return z
    .strictObject({
      at: time,
      findings: z.array(
        z.discriminatedUnion('kind', [
          finding('blocked', {
            instances: z.array(
              z.strictObject({ id: z.string(), name: z.string(), at: time, text: z.string() }),
            ),
          }),
          finding('failed', {
            groups: z.array(
              z.strictObject({
                code: text,
                error: z.string(),
                name: z.string(),
                count: z.number(),
                id: z.string(),
                message: z.string(),
                at: time,
              }),
            ),
          }),
          finding('unclaimed', {
            work: z.array(
              z.strictObject({
                kind,
                name: z.string(),
                version: text,
                dueForMs: z.number(),
                waiting: z.number(),
              }),
            ),
          }),
          finding('leaked', {
            workers: z.array(
              z.strictObject({ id: z.string(), name: z.string(), leaked: z.number() }),
            ),
          }),
          finding('staleWorkers', {
            workers: z.array(
              z.strictObject({
                id: z.string(),
                name: z.string(),
                host: z.string(),
                lastSeenAt: time,
                diedAt: time.exactOptional(),
              }),
            ),
          }),
          finding('lateSchedules', {
            schedules: z.array(
              z.strictObject({
                name: z.string(),
                reason: z.enum(['late', 'overlap']),
                since: time,
                lastInstanceId: text,
                skippedTicks: z.number().exactOptional(),
              }),
            ),
          }),
          finding('oldQueues', { queues: z.array(queue) }),
          finding('pausedDefinitions', {
            definitions: z.array(
              z.strictObject({ kind, name: z.string(), at: time, reason: text, actor: text }),
            ),
          }),
        ]),
      ),
    })
    .meta({ id: 'Attention', description: 'What needs the attention of an operator.' });
}
