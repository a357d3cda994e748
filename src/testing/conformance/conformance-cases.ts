import { abandonedResults } from './cases/jobs/abandoned-results.ts';
import { acks } from './cases/queues/acks.ts';
import { activityCancels } from './cases/cancellation/activity-cancels.ts';
import { atomicity } from './cases/instances/atomicity.ts';
import { audits } from './cases/deletion/audits.ts';
import { operatorAudits } from './cases/deletion/operator-audits.ts';
import { batches } from './cases/instances/batches.ts';
import { cancelRequests } from './cases/cancellation/cancel-requests.ts';
import { canceledInstances } from './cases/cancellation/canceled-instances.ts';
import { childCancels } from './cases/cancellation/child-cancels.ts';
import { children } from './cases/instances/children.ts';
import { claimAtInsert } from './cases/queues/claim-at-insert.ts';
import { claims } from './cases/queues/claims.ts';
import { cleanupLimits } from './cases/cancellation/cleanup-limits.ts';
import { close } from './cases/queues/close.ts';
import { debounces } from './cases/tasks/debounces.ts';
import { dedupeKeys } from './cases/tasks/dedupe-keys.ts';
import { dedupeWindows } from './cases/tasks/dedupe-windows.ts';
import { continueAsNewCases } from './cases/instances/continue-as-new.ts';
import { creation } from './cases/instances/creation.ts';
import { deletionFencing } from './cases/deletion/deletion-fencing.ts';
import { deletionHints } from './cases/deletion/deletion-hints.ts';
import { deletionRefusals } from './cases/deletion/deletion-refusals.ts';
import { deletions } from './cases/deletion/deletions.ts';
import { expiries } from './cases/tasks/expiries.ts';
import { fencing } from './cases/queues/fencing.ts';
import { filters } from './cases/instances/filters.ts';
import { firstTurn } from './cases/instances/first-turn.ts';
import { streamsOfSteps } from './cases/talking/streams-of-steps.ts';
import { starting } from './cases/talking/starting.ts';
import { taskConflicts } from './cases/tasks/task-conflicts.ts';
import { turnStarts } from './cases/talking/turn-starts.ts';
import { repeatedStops } from './cases/cancellation/repeated-stops.ts';
import { timeouts } from './cases/cancellation/timeouts.ts';
import { headersCases } from './cases/instances/headers.ts';
import { awakeables, updates } from './cases/talking/updates.ts';
import { hints } from './cases/queues/hints.ts';
import { holdBackCases } from './cases/instances/hold-back.ts';
import { hostileStrings } from './cases/instances/hostile-strings.ts';
import { lists } from './cases/instances/lists.ts';
import { stateCases } from './cases/talking/state.ts';
import { tags } from './cases/instances/tags.ts';
import { inspection } from './cases/instances/inspection.ts';
import { jobEnds } from './cases/jobs/job-ends.ts';
import { jobs } from './cases/jobs/jobs.ts';
import { largeBatches } from './cases/queues/large-batches.ts';
import { leases } from './cases/queues/leases.ts';
import { keptClaims } from './cases/queues/kept-claims.ts';
import { limitDeclarations } from './cases/limits/declarations.ts';
import { limitLanes } from './cases/limits/lanes.ts';
import { limitPlaces } from './cases/limits/places.ts';
import { locks } from './cases/queues/locks.ts';
import { messages } from './cases/queues/messages.ts';
import { onFail } from './cases/tasks/on-fail.ts';
import { operatorReads } from './cases/instances/operator-reads.ts';
import { pointsOfNoReturn } from './cases/cancellation/points-of-no-return.ts';
import { priorities } from './cases/tasks/priorities.ts';
import { prunes } from './cases/deletion/prunes.ts';
import { queueOrder } from './cases/queues/queue-order.ts';
import { reads } from './cases/instances/reads.ts';
import { reclaims } from './cases/deletion/reclaims.ts';
import { repeatedStarts } from './cases/deletion/repeated-starts.ts';
import { renewals } from './cases/queues/renewals.ts';
import { reruns } from './cases/instances/reruns.ts';
import { retries } from './cases/queues/retries.ts';
import { scans } from './cases/instances/scans.ts';
import { scheduleRuns } from './cases/tasks/schedule-runs.ts';
import { schedules } from './cases/tasks/schedules.ts';
import { sessionEnds } from './cases/jobs/session-ends.ts';
import { sessions } from './cases/jobs/sessions.ts';
import { sharing } from './cases/queues/sharing.ts';
import { recordedStreams } from './cases/talking/recorded-streams.ts';
import { streams } from './cases/jobs/streams.ts';
import { workers } from './cases/queues/workers.ts';
import { series } from './cases/queues/series.ts';
import { takeovers } from './cases/queues/takeovers.ts';
import { taskAcks } from './cases/tasks/task-acks.ts';
import { taskClaims } from './cases/tasks/task-claims.ts';
import { taskCreation } from './cases/tasks/task-creation.ts';
import { taskStops } from './cases/tasks/task-stops.ts';
import { terminal } from './cases/instances/terminal.ts';
import { terminations } from './cases/cancellation/terminations.ts';
import { timerTurns } from './cases/queues/timer-turns.ts';
import { instancePauses } from './cases/pausing/instance-pauses.ts';
import { treePauses } from './cases/pausing/tree-pauses.ts';
import { beginAgain } from './cases/limits/begin-again.ts';
import { beginLimits } from './cases/limits/begin-limits.ts';
import { definitionPauses } from './cases/pausing/definition-pauses.ts';
import { timers } from './cases/queues/timers.ts';
import { transactions } from './cases/queues/transactions.ts';
import { turnAcks } from './cases/instances/turn-acks.ts';
import { turnsUnderWay } from './cases/instances/turns-under-way.ts';
import { unclaimedWork } from './cases/queues/unclaimed-work.ts';
import { undecodableData } from './cases/instances/undecodable-data.ts';
import { views } from './cases/instances/views.ts';
import { waits } from './cases/queues/waits.ts';
import { workAcks } from './cases/queues/work-acks.ts';
import type { Capability, ConformanceCase } from './conformance-case.ts';

/** All capabilities of the contract, with their cases. */
export const capabilities: readonly Capability[] = [
  creation,
  firstTurn,
  atomicity,
  fencing,
  locks,
  keptClaims,
  queueOrder,
  claims,
  batches,
  acks,
  timers,
  messages,
  children,
  continueAsNewCases,
  reruns,
  stateCases,
  terminal,
  workAcks,
  transactions,
  retries,
  renewals,
  activityCancels,
  cancelRequests,
  repeatedStops,
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
  dedupeWindows,
  debounces,
  expiries,
  onFail,
  limitDeclarations,
  limitPlaces,
  limitLanes,
  schedules,
  scheduleRuns,
  sessions,
  sessionEnds,
  jobs,
  jobEnds,
  abandonedResults,
  streams,
  recordedStreams,
  streamsOfSteps,
  undecodableData,
  filters,
  waits,
  headersCases,
  starting,
  taskConflicts,
  turnStarts,
  timeouts,
  updates,
  awakeables,
  hints,
  reads,
  lists,
  tags,
  hostileStrings,
  largeBatches,
  deletions,
  repeatedStarts,
  deletionRefusals,
  deletionFencing,
  deletionHints,
  reclaims,
  audits,
  operatorAudits,
  prunes,
  scans,
  operatorReads,
  unclaimedWork,
  inspection,
  views,
  instancePauses,
  treePauses,
  definitionPauses,
  beginLimits,
  beginAgain,
  leases,
  takeovers,
  workers,
  series,
  sharing,
  close,
];

/** All cases of the suite, for runners that register them individually. */
export const conformanceCases: readonly ConformanceCase[] = capabilities.flatMap(
  ({ cases }) => cases,
);
