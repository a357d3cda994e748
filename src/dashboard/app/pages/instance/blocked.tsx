import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import { Icon } from '../../components/icon.tsx';
import { Moment } from '../../components/text.tsx';
import { href, instanceHref } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatTime } from '../../words/format.ts';
import { since } from '../../words/sentence.ts';
import {
  commandKind,
  commandName,
  operationOf,
  type HistoryEvent,
} from '../../words/event-text.ts';
import { CommandCompare } from './command-compare.tsx';
import { compareCommands, issuedInput } from './command-fields.ts';
import type { InstanceState } from './instance-data.ts';

const commandKinds: readonly HistoryEvent['kind'][] = [
  'activityScheduled',
  'timerCreated',
  'eventAwaited',
  'childScheduled',
  'detachedStarted',
  'customStatusSet',
  'chunkEmitted',
  'tagsSet',
  'stepCompleted',
  'stepFailed',
  'patchMarked',
  'awakeableCreated',
  'updateCompleted',
  'updateFailed',
  'operationWithdrawn',
];
const shownBefore = 4;
const shownAfter = 3;

/** Recorded and issued commands side by side, and what helps. */
export function Blocked({
  data: { instance },
}: {
  readonly data: InstanceState;
}): JSX.Element | null {
  const { blocked, id, name, executionId } = instance;
  const around = useResource(
    `blocked ${id} ${blocked?.eventId ?? 0} ${blocked?.at ?? 0}`,
    async (signal) => {
      const { items } = await call(
        'getHistory',
        {
          params: { id },
          query: {
            executionId,
            kinds: commandKinds as HistoryEvent['kind'][],
            after: Math.max(0, (blocked?.eventId ?? 1) - 40),
            limit: 100,
            payloads: 'none',
          },
        },
        signal,
      );
      return items;
    },
  );
  const recordedEvent = useResource(
    `blocked event ${id} ${executionId} ${blocked?.eventId ?? 0}`,
    async (signal) => {
      if (blocked?.eventId === undefined) return undefined;
      const { items } = await call(
        'getHistory',
        {
          params: { id },
          query: { executionId, after: blocked.eventId - 1, limit: 1, payloads: 'full' },
        },
        signal,
      );
      return items[0]?.event;
    },
  ).data.value;
  const others = useResource(
    `others ${name}`,
    (signal) => call('listInstances', { query: { blocked: true, name: [name], limit: 6 } }, signal),
    { everyMs: 10_000 },
  );
  const workers = useResource('workers', (signal) => call('listWorkers', {}, signal), {
    everyMs: 10_000,
  });
  if (blocked === undefined) return null;
  const eventId = blocked.eventId ?? Number.MAX_SAFE_INTEGER;
  const commands = around.data.value ?? [];
  const before = commands.filter((entry) => entry.id < eventId).slice(-shownBefore);
  const after = commands.filter((entry) => entry.id > eventId).slice(0, shownAfter);
  const builds = Map.groupBy(
    (workers.data.value?.items ?? []).filter(({ status }) => status === 'live'),
    ({ buildId }) => buildId,
  );
  const recordedInput =
    recordedEvent !== undefined && 'payload' in recordedEvent ? recordedEvent.payload : undefined;
  const { recorded, issued } = blocked;
  const fields = compareCommands(
    recorded && {
      kind: commandKind(recorded.kind),
      name: recorded.name,
      operation: recorded.operation,
      input: typeof recordedInput === 'string' ? recordedInput : undefined,
    },
    issued && {
      kind: commandKind(issued.kind),
      name: issued.name,
      operation: issued.operation,
      input: issuedInput(blocked.reason),
    },
  );
  const same = (others.data.value?.items ?? []).filter((other) => other.id !== id);
  return (
    <div class="split">
      <div class="wrap">
        {blocked.recorded === undefined && blocked.issued === undefined ? (
          <section class="panel">
            <p class="panel-p">
              <bdi>{blocked.reason}</bdi>
            </p>
          </section>
        ) : (
          <section class="panel" aria-label="Recorded and issued commands">
            <div class="cmp">
              <div>
                <div class="ch">
                  <h2>Recorded</h2>
                  <p class="dim">
                    In the history
                    {recordedEvent !== undefined && (
                      <>
                        , <Moment at={recordedEvent.at} />
                      </>
                    )}
                  </p>
                </div>
                {before.map(({ id: key, event }) => (
                  <CommandLine key={key} event={event} at={event.at} />
                ))}
                <CommandLine
                  bad
                  operation={recorded?.operation}
                  kind={recorded === undefined ? '' : commandKind(recorded.kind)}
                  text={recorded?.name ?? recorded?.text ?? 'no command'}
                  at={recordedEvent?.at}
                />
                {after.map(({ id: key, event }) => (
                  <CommandLine key={key} event={event} at={event.at} />
                ))}
              </div>
              <div class="mid" aria-hidden="true">
                <div class="ch" />
                {before.map(({ id: key }) => (
                  <div key={key} class="cl">
                    <Icon small name="tick" />
                  </div>
                ))}
                <div class="cl bad" data-st="blocked">
                  <Icon small name="blocked" class="ic" />
                </div>
                {after.map(({ id: key }) => (
                  <div key={key} class="cl" />
                ))}
              </div>
              <div>
                <div class="ch">
                  <h2>Issued</h2>
                  <p class="dim">
                    By build <code>{blocked.buildId}</code>
                    {blocked.worker !== undefined && (
                      <>
                        {' '}
                        on <bdi>{blocked.worker}</bdi>
                      </>
                    )}
                  </p>
                </div>
                {before.map(({ id: key, event }) => (
                  <CommandLine key={key} event={event} />
                ))}
                <CommandLine
                  bad
                  operation={issued?.operation ?? recorded?.operation}
                  kind={issued === undefined ? '' : commandKind(issued.kind)}
                  text={issued?.name ?? issued?.text ?? 'no command'}
                />
                {after.map(({ id: key, event }) => (
                  <CommandLine
                    key={key}
                    operation={operationOf(event)}
                    kind=""
                    text="not reached"
                    dim
                  />
                ))}
              </div>
            </div>
          </section>
        )}
        {fields.length > 0 && (
          <CommandCompare
            title={`${recorded?.operation === undefined ? 'The command' : `Operation ${recorded.operation}`}, field by field`}
            rows={fields}
          />
        )}
        <section class="panel blocked-reason">
          <div class="panel-h">
            <h2>What the worker reported</h2>
          </div>
          <p class="panel-p">
            <bdi>{blocked.reason}</bdi>
          </p>
          {blocked.location !== undefined && (
            <p class="panel-p dim">
              <code>
                <bdi>{blocked.location}</bdi>
              </code>
            </p>
          )}
        </section>
      </div>
      <aside class="aside" aria-label="What helps">
        <div class="ph">
          <h2>What helps</h2>
        </div>
        <div class="sect">
          <ol class="helps">
            <li>
              <b>Deploy code that agrees with the history</b>
              <p>
                Issue the recorded command at this place again. A worker with another build retries
                the instance immediately.
              </p>
            </li>
            <li>
              <b>Register the old code as its own version</b>
              <p>New instances take the new version, and this one ends on the old one.</p>
            </li>
            <li>
              <b>Give it up</b>
              <p>
                Its code cannot be replayed, so a cancel runs no clean-up. Terminate ends it
                immediately.
              </p>
            </li>
          </ol>
        </div>
        <div class="sect">
          <dl class="kv">
            <dt>Blocked since</dt>
            <dd>
              <Moment at={blocked.at} />, {since(blocked.at)}
            </dd>
            <dt>Code</dt>
            <dd>
              <code>{blocked.code}</code>
            </dd>
          </dl>
        </div>
        {same.length > 0 && (
          <div class="sect">
            <h3>
              Others of {name}
              <a
                class="link right"
                href={href(
                  ['instances'],
                  new URLSearchParams([
                    ['blocked', 'yes'],
                    ['name', name],
                  ]),
                )}
              >
                Show all
              </a>
            </h3>
            <ul class="waits">
              {same.map((other) => (
                <li key={other.id} data-st="blocked">
                  <Icon name="blocked" />
                  <a class="link" href={instanceHref(other.id)}>
                    <bdi>{other.id}</bdi>
                  </a>
                </li>
              ))}
            </ul>
          </div>
        )}
        <div class="sect compared">
          <h3>How commands are compared</h3>
          <p class="sec">
            By kind, place, name, child id and input. Not by the time of a timer, retry options or
            the version of a child.
          </p>
        </div>
        {builds.size > 0 && (
          <div class="sect">
            <h3>Live builds</h3>
            <dl class="kv">
              {[...builds].slice(0, 8).map(([build, inside]) => (
                <>
                  <dt key={build}>
                    <code class="cut">{build}</code>
                  </dt>
                  <dd>
                    {inside.length} {inside.length === 1 ? 'worker' : 'workers'}
                    {build === blocked.buildId && ', disagrees'}
                  </dd>
                </>
              ))}
            </dl>
          </div>
        )}
      </aside>
    </div>
  );
}

function CommandLine({
  event,
  operation = event === undefined ? undefined : operationOf(event),
  kind = event === undefined ? '' : commandKind(event.kind),
  text = event === undefined ? '' : commandName(event),
  at,
  bad = false,
  dim = false,
}: {
  readonly event?: HistoryEvent;
  readonly operation?: number | undefined;
  readonly kind?: string;
  readonly text?: string;
  readonly at?: number | undefined;
  readonly bad?: boolean;
  readonly dim?: boolean;
}): JSX.Element {
  return (
    <div class={`cl ${bad ? 'bad' : ''} ${dim ? 'na' : ''}`}>
      <span class="o tnum">{operation}</span>
      <span class="kd">{kind}</span>
      <code class="cut" title={text}>
        <bdi>{text}</bdi>
      </code>
      {at !== undefined && <span class="tm tnum">{formatTime(at)}</span>}
    </div>
  );
}
