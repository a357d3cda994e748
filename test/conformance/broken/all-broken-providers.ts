import type { BrokenProvider } from './broken-provider.ts';
import { brokenAudits } from './audits.ts';
import { brokenClaims } from './claims.ts';
import { brokenCollisions } from './collisions.ts';
import { brokenLists } from './lists.ts';
import { brokenDeletions } from './deletions.ts';
import { brokenFences } from './fences.ts';
import { brokenMetrics } from './metrics.ts';
import { brokenDeletedInstances } from './deleted-instances.ts';
import { brokenInspection } from './inspection.ts';
import { brokenInstances } from './instances.ts';
import { brokenJobs } from './jobs.ts';
import { brokenKeptClaims } from './kept-claims.ts';
import { brokenLeases } from './leases.ts';
import { brokenLimits } from './limits.ts';
import { brokenOperatorAudits } from './operator-audits.ts';
import { brokenPauses } from './pauses.ts';
import { brokenPrunes } from './prunes.ts';
import { brokenQueues } from './queues.ts';
import { brokenReclaims } from './reclaims.ts';
import { brokenRepeatedStarts } from './repeated-starts.ts';
import { brokenReruns } from './reruns.ts';
import { brokenUpdates } from './updates.ts';
import { brokenScans } from './scans.ts';
import { brokenSchedules } from './schedules.ts';
import { brokenSeries } from './series.ts';
import { brokenSessions } from './sessions.ts';
import { brokenSignals } from './signals.ts';
import { brokenStarting } from './starting.ts';
import { brokenStartKeys } from './start-keys.ts';
import { brokenBeginLimits } from './begin-limits.ts';
import { brokenState } from './state.ts';
import { brokenStops } from './stops.ts';
import { brokenRecordedStreams } from './recorded-streams.ts';
import { brokenStreamsOfSteps } from './streams-of-steps.ts';
import { brokenStreams } from './streams.ts';
import { brokenTakeovers } from './takeovers.ts';
import { brokenTaskEnds } from './task-ends.ts';
import { brokenTaskQueues } from './task-queues.ts';
import { brokenTimerTurns } from './timer-turns.ts';
import { brokenTransactions } from './transactions.ts';
import { brokenTurnAcks } from './turn-acks.ts';
import { brokenTurns } from './turns.ts';
import { brokenUnclaimedWork } from './unclaimed-work.ts';
import { brokenViews } from './views.ts';
import { brokenWork } from './work.ts';
import { brokenWorkers } from './workers.ts';

/** All providers that the conformance suite must reject. */
export const brokenProviders: readonly BrokenProvider[] = [
  ...brokenFences,
  ...brokenLimits,
  ...brokenClaims,
  ...brokenKeptClaims,
  ...brokenTurns,
  ...brokenTurnAcks,
  ...brokenTimerTurns,
  ...brokenWork,
  ...brokenTransactions,
  ...brokenStops,
  ...brokenStarting,
  ...brokenCollisions,
  ...brokenStartKeys,
  ...brokenQueues,
  ...brokenInstances,
  ...brokenSignals,
  ...brokenLists,
  ...brokenDeletions,
  ...brokenDeletedInstances,
  ...brokenRepeatedStarts,
  ...brokenPrunes,
  ...brokenPauses,
  ...brokenSeries,
  ...brokenAudits,
  ...brokenOperatorAudits,
  ...brokenReclaims,
  ...brokenScans,
  ...brokenMetrics,
  ...brokenLeases,
  ...brokenTakeovers,
  ...brokenWorkers,
  ...brokenTaskQueues,
  ...brokenTaskEnds,
  ...brokenSchedules,
  ...brokenSessions,
  ...brokenJobs,
  ...brokenStreams,
  ...brokenRecordedStreams,
  ...brokenStreamsOfSteps,
  ...brokenUnclaimedWork,
  ...brokenInspection,
  ...brokenReruns,
  ...brokenUpdates,
  ...brokenViews,
  ...brokenBeginLimits,
  ...brokenState,
];
