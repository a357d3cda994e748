import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../components/button.tsx';
import { JsonView } from '../../components/json-view.tsx';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { VirtualList } from '../../components/virtual-list.tsx';
import { formatBytes, formatDateTime, formatNumber, formatTime } from '../../words/format.ts';
import type { InstanceState } from './instance-data.ts';
import { useStream, type StreamEntry } from './stream-data.ts';

/** The start of a chunk, in a row. */
const headLength = 200;

/** The chunks that the instance has emitted, the newest first. */
export function Stream({ data }: { readonly data: InstanceState }): JSX.Element {
  const { id } = data.instance;
  const stream = useStream(id);
  const [current, setCurrent] = useState(-1);
  const [chosen, setChosen] = useState<StreamEntry>();
  const entries = stream.entries.value;
  const error = stream.error.value;
  const notKept = stream.notKept.value;
  if (error?.code === 'STREAM_TAKEN') {
    return (
      <Empty icon="search" title="The chunks of a job go to its caller.">
        <p>They are deleted as the caller reads them.</p>
      </Empty>
    );
  }
  return (
    <div class={chosen === undefined ? '' : 'split'}>
      <div>
        {error !== undefined && <Problem error={error} />}
        {entries.length === 0 && stream.isLoading.value && <Loading rows={10} />}
        {entries.length === 0 && !stream.isLoading.value && error === undefined && (
          <Empty
            icon="search"
            title={stream.hasEnded.value ? 'Nothing was emitted.' : 'Nothing has been emitted yet.'}
          >
            <p>Call ctx.emit in the orchestration or a handler, or step.emit in a step.</p>
          </Empty>
        )}
        {notKept > 0 && (
          <p class="wrap dim">
            {`${formatNumber(notKept)} older entries are not shown. Read them with \`perdure stream\`.`}
          </p>
        )}
        {entries.length > 0 && (
          <div class="history">
            <VirtualList
              label="Stream"
              rowName="er"
              count={entries.length}
              current={current}
              onCurrent={setCurrent}
              onOpen={(index) => setChosen(entries[index])}
              isSelected={(index) => entries[index]?.cursor === chosen?.cursor}
              rowClass={(index) => (entries[index]?.cursor === chosen?.cursor ? 'sel' : '')}
              header={
                <div class="er h" role="row" aria-rowindex={1}>
                  <span role="columnheader">Number</span>
                  <span role="columnheader">Time</span>
                  <span role="columnheader">Emitted by</span>
                  <span role="columnheader">Chunk</span>
                  <span role="columnheader" class="r">
                    Size
                  </span>
                </div>
              }
              row={(index) => {
                const entry = entries[index];
                return entry === undefined ? (
                  <span role="gridcell" />
                ) : (
                  <EntryCells entry={entry} open={() => setChosen(entry)} />
                );
              }}
            />
          </div>
        )}
      </div>
      {chosen !== undefined && <Chunk entry={chosen} onClose={() => setChosen(undefined)} />}
    </div>
  );
}

function EntryCells({
  entry,
  open,
}: {
  readonly entry: StreamEntry;
  readonly open: () => void;
}): JSX.Element {
  if (entry.kind === 'dropped') {
    return (
      <>
        <span role="gridcell" class="dim tnum">
          {numberOf(entry)}
        </span>
        <span role="gridcell" />
        <span role="gridcell" class="dim">
          Dropped
        </span>
        <span role="gridcell" class="sec cut">
          {`${formatNumber(entry.count)} chunks exceeded the limit of the stream.`}
        </span>
        <span role="gridcell" />
      </>
    );
  }
  const text = JSON.stringify(entry.value);
  return (
    <>
      <span role="gridcell" class="dim tnum">
        {numberOf(entry)}
      </span>
      <span role="gridcell" class="sec tnum">
        {formatTime(entry.at, { millis: true })}
      </span>
      <span role="gridcell" class="cut">
        <button type="button" class="plain-link" tabIndex={-1} onClick={open}>
          <bdi>{emitterOf(entry)}</bdi>
        </button>
      </span>
      <span role="gridcell" class="sec cut">
        <bdi class="mono">{text.slice(0, headLength)}</bdi>
      </span>
      <span role="gridcell" class="r dim">
        {formatBytes(text.length)}
      </span>
    </>
  );
}

/** One chunk with its source. */
function Chunk({
  entry,
  onClose,
}: {
  readonly entry: StreamEntry;
  readonly onClose: () => void;
}): JSX.Element {
  const number = numberOf(entry);
  return (
    <aside class="aside" aria-label={`Chunk ${number}`}>
      <div class="ph">
        <span class="dim">{number}</span>
        <h2>{entry.kind === 'chunk' ? 'Chunk' : 'Dropped chunks'}</h2>
        <span class="grow" />
        <Button small look="ghost" icon="close" label="Close" onClick={onClose} />
      </div>
      {entry.kind === 'chunk' && (
        <>
          <div class="sect">
            <dl class="kv">
              <dt>Emitted</dt>
              <dd>{formatDateTime(entry.at)}</dd>
              <dt>By</dt>
              <dd>
                <bdi>{emitterOf(entry)}</bdi>
              </dd>
              <dt>Execution</dt>
              <dd>{entry.source.executionId}</dd>
            </dl>
          </div>
          <div class="sect">
            <h3>Value</h3>
            <JsonView text={JSON.stringify(entry.value)} label="chunk" />
          </div>
        </>
      )}
      {entry.kind === 'dropped' && (
        <p class="sect">{`${formatNumber(entry.count)} chunks exceeded the limit of the stream.`}</p>
      )}
    </aside>
  );
}

function emitterOf({ source }: Extract<StreamEntry, { readonly kind: 'chunk' }>): string {
  const { handler } = source;
  if (handler === undefined) return 'orchestration';
  return handler.attempt > 1 ? `${handler.name}, attempt ${handler.attempt}` : handler.name;
}

/** The number of the entry in its stream, which its cursor begins with. */
function numberOf({ cursor }: StreamEntry): string {
  return formatNumber(Number.parseInt(cursor, 10));
}
