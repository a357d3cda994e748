import { abandonedResults } from './cases/abandoned-results.ts';
import { acks } from './cases/acks.ts';
import { activityCancels } from './cases/activity-cancels.ts';
import { atomicity } from './cases/atomicity.ts';
import { audits } from './cases/audits.ts';
import { batches } from './cases/batches.ts';
import { cancelRequests } from './cases/cancel-requests.ts';
import { canceledInstances } from './cases/canceled-instances.ts';
import { childCancels } from './cases/child-cancels.ts';
import { children } from './cases/children.ts';
import { claimAtInsert } from './cases/claim-at-insert.ts';
import { claims } from './cases/claims.ts';
import { cleanupLimits } from './cases/cleanup-limits.ts';
import { close } from './cases/close.ts';
import { dedupeKeys } from './cases/dedupe-keys.ts';
import { continueAsNewCases } from './cases/continue-as-new.ts';
import { creation } from './cases/creation.ts';
import { deletionFencing } from './cases/deletion-fencing.ts';
import { deletionHints } from './cases/deletion-hints.ts';
import { deletionRefusals } from './cases/deletion-refusals.ts';
import { deletions } from './cases/deletions.ts';
import { expiries } from './cases/expiries.ts';
import { fencing } from './cases/fencing.ts';
import { filters } from './cases/filters.ts';
import { firstTurn } from './cases/first-turn.ts';
import { hints } from './cases/hints.ts';
import { holdBackCases } from './cases/hold-back.ts';
import { hostileStrings } from './cases/hostile-strings.ts';
import { inspection } from './cases/inspection.ts';
import { jobEnds } from './cases/job-ends.ts';
import { jobs } from './cases/jobs.ts';
import { largeBatches } from './cases/large-batches.ts';
import { leases } from './cases/leases.ts';
import { locks } from './cases/locks.ts';
import { messages } from './cases/messages.ts';
import { onFail } from './cases/on-fail.ts';
import { operatorReads } from './cases/operator-reads.ts';
import { pointsOfNoReturn } from './cases/points-of-no-return.ts';
import { priorities } from './cases/priorities.ts';
import { prunes } from './cases/prunes.ts';
import { queueOrder } from './cases/queue-order.ts';
import { reads } from './cases/reads.ts';
import { reclaims } from './cases/reclaims.ts';
import { renewals } from './cases/renewals.ts';
import { retries } from './cases/retries.ts';
import { scans } from './cases/scans.ts';
import { schedules } from './cases/schedules.ts';
import { sessionEnds } from './cases/session-ends.ts';
import { sessions } from './cases/sessions.ts';
import { sharing } from './cases/sharing.ts';
import { streams } from './cases/streams.ts';
import { takeovers } from './cases/takeovers.ts';
import { taskAcks } from './cases/task-acks.ts';
import { taskClaims } from './cases/task-claims.ts';
import { taskCreation } from './cases/task-creation.ts';
import { taskStops } from './cases/task-stops.ts';
import { terminal } from './cases/terminal.ts';
import { terminations } from './cases/terminations.ts';
import { timerTurns } from './cases/timer-turns.ts';
import { timers } from './cases/timers.ts';
import { turnAcks } from './cases/turn-acks.ts';
import { turnsUnderWay } from './cases/turns-under-way.ts';
import { unclaimedWork } from './cases/unclaimed-work.ts';
import { undecodableData } from './cases/undecodable-data.ts';
import { waits } from './cases/waits.ts';
import { workAcks } from './cases/work-acks.ts';
import type { Capability, ConformanceCase } from './conformance-case.ts';

/** Every capability of the contract, each with its cases. */
export const capabilities: readonly Capability[] = [
  creation,
  firstTurn,
  atomicity,
  fencing,
  locks,
  queueOrder,
  claims,
  batches,
  acks,
  timers,
  messages,
  children,
  continueAsNewCases,
  terminal,
  workAcks,
  retries,
  renewals,
  activityCancels,
  cancelRequests,
  cleanupLimits,
  turnsUnderWay,
  canceledInstances,
  terminations,
  pointsOfNoReturn,
  childCancels,
  claimAtInsert,
  turnAcks,
  timerTurns,
  holdBackCases,
  taskCreation,
  taskClaims,
  priorities,
  taskAcks,
  taskStops,
  dedupeKeys,
  expiries,
  onFail,
  schedules,
  sessions,
  sessionEnds,
  jobs,
  jobEnds,
  abandonedResults,
  streams,
  undecodableData,
  filters,
  waits,
  hints,
  reads,
  hostileStrings,
  largeBatches,
  deletions,
  deletionRefusals,
  deletionFencing,
  deletionHints,
  reclaims,
  audits,
  prunes,
  scans,
  operatorReads,
  unclaimedWork,
  inspection,
  leases,
  takeovers,
  sharing,
  close,
];

/** Every case of the suite, for runners that want to register them on their own. */
export const conformanceCases: readonly ConformanceCase[] = capabilities.flatMap(
  ({ cases }) => cases,
);
