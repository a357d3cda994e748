import type { Weather } from '../engine/weather.ts';

const repeats: Partial<Weather> = { rates: { repeat: 0.7 } };
const lateCalls: Partial<Weather> = {
  hosts: 0,
  activityLeaseMs: 300,
  rates: { slow: 0.3, stop: 0.05, repeat: 0.3 },
};
const losses: Partial<Weather> = {
  pollMs: 250,
  rates: { failBefore: 0.1, failAfter: 0.1, kill: 0.03, hintLost: 0.5 },
};

/** The faults of variants of the store that need many of one kind. Absent: the faults of the seed. */
export const conditions: Readonly<Record<string, Partial<Weather>>> = {
  'the key of a cancel request is ignored': repeats,
  'each of two concurrent retries starts an execution': repeats,
  'a repeat creates nothing, whether or not its start was deleted': losses,
  'a lease is granted to every caller': repeats,
  'a lease can be released by any caller': losses,
  'a lease cannot be released': repeats,
  'a withdrawal removes the timers of that operation in every instance': repeats,
  'a refused ack still enqueues its completion': lateCalls,
  'an ack deletes every fetched message, not only those it names': lateCalls,
  'a turn parks its instance after its parent has canceled it in the same batch': repeats,
  'a cancel request ignores the incarnation': repeats,
  'a cancel request is delivered past the point of no return': lateCalls,
  'a cancel request past the point of no return discards the outcome': lateCalls,
  'the point of no return can be passed after a cancel request': lateCalls,
  'a cancel deletes a queued completion': lateCalls,
  'a session ends while its jobs run': lateCalls,
  'a session that ends is due for several workers at a time': losses,
  'the end of a session stops jobs of others': lateCalls,
  'a retry of the on-fail handler counts as a failure of its run': repeats,
  'a run that fails for good does not count its last attempt': repeats,
  'failed attempts are not counted': repeats,
  'an abandoned instance loses its messages': lateCalls,
  'a message ends the delay of an abandoned instance': losses,
  'a claim at insert is not counted': lateCalls,
  'a takeover decrements the claim count': losses,
  'a suspect instance shares its claim with others': lateCalls,
  'a suspect work item shares its claim with others': lateCalls,
  'task runs are claimed by workers without their code': repeats,
  'the ack is not written': repeats,
  'the writes of an aborted transaction are kept': repeats,
  'a token of an earlier execution is answered': repeats,
  'a replacement begins although no place is free': repeats,
  'a retried instance begins although no place is free': repeats,
  'chunk numbers restart when all chunks were read': repeats,
  'a tick is not fenced by the revision': repeats,
  'a tick starts its run and does not advance the schedule': repeats,
  'a repeated tick happens again': repeats,
  'a paused schedule is due': lateCalls,
  'a session that ends accepts jobs': repeats,
  'an on-fail handler follows a skipped run': repeats,
  'a skipped run counts as completed': repeats,
  'a late failure is stored on a completed run': repeats,
};
