import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { VirtualList } from '../../components/virtual-list.tsx';
import { query, setQuery } from '../../state/router.ts';
import { describeEvent, operationOf } from '../../words/event-text.ts';
import { formatTime, formatBytes } from '../../words/format.ts';
import { isActive } from '../../words/status.ts';
import { EventPanel } from './event-panel.tsx';
import { useHistory, type Entry } from './history-data.ts';
import type { InstanceState } from './instance-data.ts';

const kindGroups: readonly (readonly [value: string, title: string, kinds: readonly string[]])[] = [
  ['all', 'All events', []],
  [
    'failures',
    'Failures',
    [
      'activityFailed',
      'stepFailed',
      'stepRetried',
      'childFailed',
      'detachedFailed',
      'awakeableRejected',
      'updateFailed',
      'executionFailed',
    ],
  ],
  [
    'activities',
    'Activities',
    ['activityScheduled', 'activityCompleted', 'activityFailed', 'activityCanceled'],
  ],
  ['steps', 'Steps', ['stepCompleted', 'stepFailed', 'stepRetried']],
  [
    'children',
    'Children',
    [
      'childScheduled',
      'childCompleted',
      'childFailed',
      'childCanceled',
      'detachedStarted',
      'detachedConfirmed',
      'detachedFailed',
    ],
  ],
  ['events', 'External events', ['eventAwaited', 'eventReceived']],
  [
    'updates',
    'Updates and awakeables',
    [
      'updateAccepted',
      'updateCompleted',
      'updateFailed',
      'awakeableCreated',
      'awakeableResolved',
      'awakeableRejected',
    ],
  ],
  ['timers', 'Timers', ['timerCreated', 'timerFired']],
  [
    'cancel',
    'Cancel',
    [
      'cancelRequested',
      'operationWithdrawn',
      'activityCanceled',
      'childCanceled',
      'executionCanceled',
      'executionTerminated',
    ],
  ],
];

/** The recorded events, the newest first. */
export function History({ data }: { readonly data: InstanceState }): JSX.Element {
  const { id, executionId: currentExecution, status } = data.instance;
  const executionId = Number(query.value.get('execution')) || currentExecution;
  const group = query.value.get('events') ?? 'all';
  const kinds = kindGroups.find(([value]) => value === group)?.[2] ?? [];
  const history = useHistory(id, executionId, {
    kinds,
    follows: isActive(status) && executionId === currentExecution,
  });
  const [current, setCurrent] = useState(-1);
  const entries = history.entries.value;
  const chosen = Number(query.value.get('event'));
  const open = (entry: Entry | undefined): void =>
    setQuery({ event: entry === undefined ? undefined : String(entry.id) }, { replace: true });
  return (
    <div class={chosen > 0 ? 'split' : ''}>
      <div>
        <div class="tl-tools">
          <label class="inline-field">
            <span class="sr">Kinds of events</span>
            <select
              class="input"
              value={group}
              onChange={(event) =>
                setQuery(
                  {
                    events:
                      event.currentTarget.value === 'all' ? undefined : event.currentTarget.value,
                  },
                  { replace: true },
                )
              }
            >
              {kindGroups.map(([value, title]) => (
                <option key={value} value={value}>
                  {title}
                </option>
              ))}
            </select>
          </label>
          {executionId !== currentExecution && <span>Execution {executionId}</span>}
        </div>
        {history.error.value !== undefined && (
          <Problem error={history.error.value} retry={() => void history.readMore()} />
        )}
        {entries.length === 0 && history.isLoading.value && <Loading rows={10} />}
        {entries.length === 0 && !history.isLoading.value && history.error.value === undefined && (
          <Empty
            icon="search"
            title={
              kinds.length === 0
                ? 'No events are recorded yet.'
                : 'No event of this kind is recorded.'
            }
          />
        )}
        {entries.length > 0 && (
          <div class="history">
            <VirtualList
              label="History"
              rowName="er"
              count={entries.length}
              current={current}
              onCurrent={setCurrent}
              onOpen={(index) => open(entries[index])}
              onEnd={() => void history.readMore()}
              isSelected={(index) => entries[index]?.id === chosen}
              rowClass={(index) => (entries[index]?.id === chosen ? 'sel' : '')}
              header={
                <div class="er h" role="row" aria-rowindex={1}>
                  <span role="columnheader">Event</span>
                  <span role="columnheader">Time</span>
                  <span role="columnheader">Kind</span>
                  <span role="columnheader">About</span>
                  <span role="columnheader" class="r">
                    Payload
                  </span>
                </div>
              }
              row={(index) => {
                const entry = entries[index];
                if (entry === undefined) return <span role="gridcell" />;
                const { event } = entry;
                return (
                  <>
                    <span role="gridcell" class="dim tnum">
                      {entry.id}
                    </span>
                    <span role="gridcell" class="sec tnum">
                      {formatTime(event.at, { millis: true })}
                    </span>
                    <span role="gridcell" class="cut">
                      <button
                        type="button"
                        class="plain-link"
                        tabIndex={-1}
                        onClick={() => open(entry)}
                      >
                        <code data-failed={event.kind.endsWith('Failed') || undefined}>
                          {event.kind}
                        </code>
                      </button>
                    </span>
                    <span role="gridcell" class="sec cut">
                      <bdi>{describeEvent(event)}</bdi>
                    </span>
                    <span role="gridcell" class="r dim">
                      {payloadSize(entry)}
                    </span>
                  </>
                );
              }}
            />
          </div>
        )}
      </div>
      {chosen > 0 && (
        <EventPanel
          key={`${executionId} ${chosen}`}
          id={id}
          executionId={executionId}
          eventId={chosen}
          onClose={() => open(undefined)}
        />
      )}
    </div>
  );
}

function payloadSize({ event, payloadBytes }: Entry): string {
  if (payloadBytes !== undefined) return formatBytes(payloadBytes);
  if ('payload' in event && typeof event.payload === 'string')
    return formatBytes(event.payload.length);
  return operationOf(event) === undefined ? '' : '';
}
