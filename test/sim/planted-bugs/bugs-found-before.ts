/** A bug that users, testers, attackers or fault injection found before the simulation existed. */
interface EarlierBug {
  readonly bug: string;
  /** The planted bugs that put it back. Each is in `foundBy` with its seed. */
  readonly plantedAs?: readonly string[];
  /** It cannot show in the simulation, and why. `test` fails if it comes back. */
  readonly outside?: { readonly reason: string; readonly test: string };
}

const postgresOnly = 'Only the PostgreSQL provider had it.';
const realThread =
  'It needs a real thread: the simulation replaces the watchdog by the time it measures.';
const server = 'It is in the HTTP server, which no simulated process runs.';
const oneCall = 'One call shows it, in each interleaving.';

/** Bugs of the first release, each put back in the simulation or covered by another test. */
export const earlierBugs: readonly EarlierBug[] = [
  {
    bug: 'handlers of a claimed batch start after their lease, one by one',
    plantedAs: [
      'a handler starts although its lease has ended',
      'a worker counts a lease from the response instead of the request',
    ],
  },
  {
    bug: 'an onFail handler starts after its lease or cancel, because it reads its run after the check',
    plantedAs: ['an onFail handler reads its run after the check of its lease'],
  },
  {
    bug: 'handlers of a claimed batch start after an acknowledged cancel, without the event loop',
    plantedAs: [
      'all handlers of a claimed batch start in one iteration of the event loop',
      'a delivered cancel does not abort its run',
    ],
  },
  {
    bug: 'a step of a worker clock makes claims look expired, or stops their renewal',
    plantedAs: [
      'a worker measures leases with the wall clock, which steps',
      'alarms wait for the wall clock, which steps back',
    ],
  },
  {
    bug: 'a step of the machine clock of an SQLite store cuts sleeps short',
    plantedAs: ['the clock of the store follows the steps of the wall clock'],
  },
  {
    bug: 'dropped claims of healthy work count towards poison',
    plantedAs: ['unstarted claims count towards poison, and suspects share a claim'],
  },
  {
    bug: 'a handler that blocked the event loop past its lease starts again',
    plantedAs: ['a handler that blocked its process past its lease starts again'],
  },
  {
    bug: 'a restarted process waits for the leases of its dead predecessor on the same host',
    plantedAs: [
      'a worker does not list the dead processes of its host',
      'a takeover leaves the claims of the dead process',
    ],
  },
  {
    bug: 'a process is mistaken for a dead one whose pid it has',
    plantedAs: ['a suspended process counts as dead'],
  },
  {
    bug: 'no hint reports ended instances to other processes',
    plantedAs: ['hints omit ended instances'],
  },
  {
    bug: 'a detached start onto a taken id resolves without a word',
    plantedAs: ['a detached start is not confirmed'],
  },
  {
    bug: 'an endless loop in an orchestration stops one worker after the other',
    outside: { reason: realThread, test: 'test/crash/blocked-fleet.test.ts' },
  },
  {
    bug: 'delays count from the estimate of the database clock',
    outside: { reason: postgresOnly, test: 'test/postgres/clocks.test.ts' },
  },
  {
    bug: 'a connection that ends as it becomes ready ends the process',
    outside: { reason: postgresOnly, test: 'test/postgres/terminated-connections.test.ts' },
  },
  {
    bug: 'a silent connection blocks a call longer than the lease',
    outside: { reason: postgresOnly, test: 'test/postgres/outages.test.ts' },
  },
  {
    bug: 'the SQL fences of single-statement turns have no test',
    outside: { reason: postgresOnly, test: 'test/postgres/fences/turn-ack-rule.test.ts' },
  },
  {
    bug: 'an SQLite file that is deleted or replaced goes unnoticed',
    outside: {
      reason: 'It needs a real file: simulated stores are in memory.',
      test: 'test/sqlite/replaced-file.test.ts',
    },
  },
  {
    bug: 'a store with another form of a migration counts as damaged',
    outside: { reason: 'Migrations run before a seed.', test: 'test/postgres/migrate.test.ts' },
  },
  {
    bug: 'cron schedules skip or repeat ticks when local clocks change',
    outside: {
      reason: 'It is a calculation without other calls.',
      test: 'src/schedules/cron-clock-changes.test.ts',
    },
  },
  {
    bug: 'a payload that JSON changes is stored silently',
    outside: { reason: oneCall, test: 'test/engine/unserializable-values.test.ts' },
  },
  {
    bug: 'the payload of an event is not checked by its schema at waitFor',
    outside: { reason: oneCall, test: 'test/engine/event-schemas.test.ts' },
  },
  {
    bug: 'errors of timeouts and poison have the wrong code',
    outside: { reason: oneCall, test: 'test/engine/failures.test.ts' },
  },
  {
    bug: 'a call by name ignores the options of its definition',
    outside: { reason: oneCall, test: 'test/engine/calls-by-name.test.ts' },
  },
  {
    bug: 'a start with a taken id and another input resolves',
    outside: { reason: oneCall, test: 'test/engine/start-conflicts.test.ts' },
  },
  {
    bug: 'failures, blocked instances and unregistered work are not logged',
    outside: {
      reason: 'Simulated workers have a silent logger.',
      test: 'test/engine/workers/default-logger.test.ts',
    },
  },
  {
    bug: 'reading clients do not see attempts and last failures of pending work',
    outside: { reason: oneCall, test: 'test/engine/pending-work.test.ts' },
  },
  {
    bug: 'a job of another session can be canceled',
    outside: { reason: server, test: 'test/server/job-isolation.test.ts' },
  },
  {
    bug: 'pages, bodies, connections and queries of clients have no bound',
    outside: { reason: server, test: 'test/server/attacks/attack-pages.test.ts' },
  },
  {
    bug: 'results lose undefined under plain strict types',
    outside: { reason: 'It is in types.', test: 'test/types/undefined.test-d.ts' },
  },
];
