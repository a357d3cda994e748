import type { FencedStatement } from './fence.ts';

/** Ends of task runs that completed or were skipped. */
export const taskAckFences: FencedStatement = {
  name: 'perdure_end_runs_plainly',
  sentBy: 'task-ack/completes-a-run',
  fences: [
    {
      demands: 'a run that is not paused',
      find: /definition_key > 0/,
      replace: 'TRUE',
      rejectedBy: 'pause/a-task-run-is-not-claimed',
    },
    {
      demands: 'a live lease',
      find: /locked_until > (?:(?!\n).)+/,
      replace: 'TRUE',
      rejectedBy: 'task-ack/needs-a-held-item',
    },
    {
      demands: 'the token',
      find: /lock_token = secret/,
      replace: 'TRUE',
      rejectedBy: 'task-ack/needs-the-current-token',
    },
    {
      // A cancel writes both, so each alone is sufficient. The status also excludes on-fail handlers, whose runs have ended;
      // a table constraint rejects those too, but logs an error on the server.
      demands: 'a run without a cancel request',
      find: /\(run\.status = 'pending'\) IS TRUE|NOT cancel_requested/,
      times: 2,
      replace: 'TRUE',
      rejectedBy: 'task-ack/of-a-flagged-run-is-discarded',
    },
    {
      demands: 'every item passes',
      find: /1 \/ \(\(SELECT count.*?cardinality\(\$2::bigint\[\]\)\)::int/,
      replace: '1',
      rejectedBy: 'task-ack/of-a-flagged-run-is-discarded',
    },
  ],
  selections: [
    {
      find: /item_key = ANY \(ARRAY\(SELECT unnest\(\$2::bigint\[\]\)\)\)/,
      because: 'names the items',
    },
    {
      find: /instance_key = ANY \(ARRAY\(SELECT instance_key FROM item\)\)/,
      because: 'names the runs',
    },
    { find: /held_key = item_key/, because: 'joins the item to its ack' },
    { find: /run_key = instance_key/, because: 'joins the run to its item' },
    { find: /run\.ctid = ack\.row_id/, because: 'joins the run to its ack' },
    { find: /item_key = ANY \(ARRAY\(SELECT item_key FROM ended\)\)/, because: 'locks the items' },
    { find: /item_key = ANY \(ARRAY\(SELECT item_key FROM locked\)\)/, because: 'names the items' },
    {
      find: /instance_key = ANY \(ARRAY\(\s+SELECT instance_key FROM ended WHERE dedupe_key IS NOT NULL\)\)/,
      because: 'names the keys to free',
    },
    { find: /(?<=ended ON )holds = 1/, because: 'reads the result' },
  ],
};
