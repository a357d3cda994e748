import { besidePauses, limitedItems, limitKeys, noPause, type FencedStatement } from './fence.ts';

const ok = String.raw`WHERE \(SELECT ok FROM verdict\)`;

/** Turns that only record events, schedule activities and end, with the items that they ack. */
export const turnFences: FencedStatement = {
  name: 'perdure_commit_plain_turns',
  sentBy: [
    'turn-ack/follows-another',
    'turn-ack/commits-items-and-turn-together',
    'turn-ack/an-end-takes-what-is-left',
    'turn-ack/needs-the-last-turn',
  ],
  fences: [
    {
      demands: 'a running instance',
      find: /instance\.status = 'running'/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-a-live-instance',
    },
    {
      demands: 'the incarnation',
      find: /instance\.incarnation = turn\.incarnation/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-this-incarnation',
    },
    {
      demands: 'the execution',
      find: /instance\.execution_id = turn\.execution_id/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-the-current-execution',
    },
    {
      demands: 'the last turn',
      find: /instance\.last_turn = turn\.last_turn/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-the-last-turn',
    },
    {
      demands: 'events that follow the history',
      find: /instance\.history_length = turn\.first_event_id - 1/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/leaves-no-gap-in-the-history',
    },
    {
      demands: 'the version',
      find: /turn\.version = \(\s*SELECT version FROM \S+\.definitions AS definition\s+WHERE definition\.definition_key = instance\.definition_key\)/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/takes-the-version-along',
    },
    {
      demands: 'no claim and no message',
      find: /\(SELECT 1 FROM \S+\.instance_locks AS lock WHERE lock\.instance_key = turn\.instance_key\) IS NULL/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-a-free-instance',
    },
    {
      demands: 'no children at the end',
      find: /NOT instance\.has_children/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/an-end-cancels-children',
    },
    {
      demands: 'no other items at the end',
      find: /turn\.tokens = \(\s*SELECT count\(\*\) FROM \(SELECT 1 FROM \S+\.worker_queue AS item\s+WHERE item\.instance_key = turn\.instance_key LIMIT turn\.tokens \+ 1\) AS items\)/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/an-end-takes-what-is-left',
    },
    {
      demands: 'every turn passes',
      find: /\(SELECT count\(\*\) FROM turn\) = cardinality\(\$2::bigint\[\]\)/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-the-last-turn',
    },
    {
      demands: 'the token',
      find: /item\.lock_token = token\.secret/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-the-current-token',
    },
    {
      demands: 'a live lease',
      find: /item\.locked_until > \(SELECT now FROM drawn\)/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-unexpired-tokens',
    },
    {
      demands: 'no cancel flag',
      find: /NOT item\.cancel_requested/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-unflagged-items',
    },
    {
      demands: 'an item of the instance',
      find: /item\.instance_key = token\.instance_key(?= AND)/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-items-of-its-own-instance',
    },
    {
      demands: 'an item of the execution',
      find: /item\.execution_id = token\.execution_id/,
      replace: 'TRUE',
      rejectedBy: 'turn-ack/needs-items-of-its-own-execution',
    },
    {
      demands: 'every token passes',
      find: /\) = cardinality\(\$\d+::bigint\[\]\)(?= AND NOT )/,
      replace: ') IS NOT NULL',
      rejectedBy: 'turn-ack/needs-every-token-held',
    },
    {
      demands: noPause,
      find: /NOT \(SELECT has_paused FROM drawn\)(?= AS ok)/,
      replace: 'TRUE',
      rejectedBy: 'pause/a-fast-turn-of-a-definition-is-rejected',
    },
    {
      demands: 'all checks before items are deleted',
      find: new RegExp(`${ok}(?= AND item_key)`),
      replace: 'WHERE TRUE',
      rejectedBy: 'turn-ack/needs-the-last-turn',
    },
    {
      demands: 'all checks before events are recorded',
      find: new RegExp(String.raw`(?<=AS event \([^)]+\)\s+)${ok}`),
      replace: '',
      rejectedBy: 'turn-ack/needs-the-last-turn',
    },
    {
      demands: 'all checks before activities are scheduled',
      find: new RegExp(String.raw`(?<=claimed_by, place\)\s+)${ok}`),
      replace: '',
      rejectedBy: 'turn-ack/needs-the-last-turn',
    },
    {
      demands: 'all checks before the instance is written',
      find: new RegExp(String.raw`${ok}(?= AND instance\.ctid)`),
      replace: 'WHERE TRUE',
      rejectedBy: 'turn-ack/needs-every-token-held',
    },
  ],
  selections: [
    limitedItems,
    limitKeys,
    { find: /one\.instance_key = turn\.instance_key LIMIT 1/, because: 'joins the instance' },
    { find: /\(turn\.status = 'running' OR/, because: 'begins the demands of an end' },
    {
      find: /\(\s+SELECT count\(\*\) FILTER \(WHERE(?= item)/,
      because: 'begins the demands of the tokens',
    },
    { find: /ON held_key = item_key/, because: 'joins the item' },
    {
      find: /item_key = ANY \(\$\d+::bigint\[\]\)/,
      times: 2,
      because: 'names the items to read, and those to delete',
    },
    { find: /instance\.ctid = turn\.row_id/, because: 'joins the instance to its turn' },
    { find: /ended_at IS NOT NULL/, times: 3, because: 'reads which instances have ended' },
    { find: /instance_key = ANY \(ARRAY\(SELECT/, because: 'names the instances that have ended' },
  ],
};

export const turnFencesBesidePauses = besidePauses(turnFences, {
  name: 'perdure_commit_turns_beside_pauses',
  sentBy: 'pause/a-fast-turn-of-a-definition-is-rejected',
});
