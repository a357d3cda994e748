import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { actionWords } from '../actions/action-words.ts';
import { bulkRun, type BulkRun } from '../actions/bulk-run.ts';
import { Button } from '../components/button.tsx';
import { CopyButton } from '../components/copy-button.tsx';
import { Icon } from '../components/icon.tsx';
import { Problem } from '../components/states.tsx';
import { Status } from '../components/status.tsx';
import { now } from '../state/clock.ts';
import { instanceHref } from '../state/router.ts';
import { formatDuration, formatNumber } from '../words/format.ts';

const shownRefusals = 5;

/** The progress of a bulk action. Stays while pages change. */
export function BulkDock(): JSX.Element | null {
  const run = bulkRun.value;
  return run === undefined ? null : <Shown run={run} />;
}

function Shown({ run }: { readonly run: BulkRun }): JSX.Element {
  const [isSmall, setSmall] = useState(false);
  const changed = run.changed.value;
  const refused = run.refused.value.length + run.refusedMore.value;
  const total = run.total.value;
  const toGo = total === undefined ? undefined : Math.max(0, total - changed - refused);
  const share = (count: number): string =>
    String(total === undefined || total === 0 ? 0 : (count / total) * 100);
  const state = run.state.value;
  const titles = {
    running: run.title,
    done: `Done: ${run.title}`,
    stopped: `Stopped: ${run.title}`,
    failed: `Failed: ${run.title}`,
  };
  return (
    <section class="dock" aria-label="Bulk action">
      <div class="ph">
        <h2 class="cut" aria-live="polite">
          {titles[state]}
        </h2>
        <span class="grow" />
        {state === 'running' ? (
          <Button small onClick={() => run.stop()}>
            Stop
          </Button>
        ) : (
          <Button
            small
            look="ghost"
            icon="close"
            label="Close"
            onClick={() => {
              bulkRun.value = undefined;
            }}
          />
        )}
        <Button
          small
          look="ghost"
          icon={isSmall ? 'up' : 'minus'}
          label={isSmall ? 'Show details' : 'Minimise'}
          onClick={() => setSmall(!isSmall)}
        />
      </div>
      {!isSmall && (
        <>
          <div class="sect">
            <div
              class="stack big"
              role="img"
              aria-label={
                total === undefined
                  ? `${changed} changed`
                  : `${formatNumber(changed + refused)} of ${formatNumber(total)}`
              }
            >
              <i data-st="completed" style={{ '--v': share(changed) }} />
              {refused > 0 && <i data-st="failed" style={{ '--v': share(refused) }} />}
            </div>
            <div class="cnt three">
              <div>
                <Status tone="completed" text={actionWords[run.action].done} />
                <b>{formatNumber(changed)}</b>
              </div>
              <div>
                <Status tone="failed" text="Refused" />
                <b>{formatNumber(refused)}</b>
              </div>
              <div>
                <Status tone="queued" text="To go" />
                <b>{toGo === undefined ? 'many' : formatNumber(toGo)}</b>
              </div>
            </div>
          </div>
          {run.refused.value.length > 0 && (
            <div class="sect">
              <h3>
                Refused{' '}
                <span class="right">
                  <CopyButton
                    text={() => run.refused.value.map(({ id }) => id).join('\n')}
                    label="Copy the ids"
                  />
                </span>
              </h3>
              <ul class="waits">
                {run.refused.value.slice(0, shownRefusals).map(({ id, reason }) => (
                  <li key={id} data-st="failed">
                    <Icon name="failed" />
                    <div>
                      <a class="link" href={instanceHref(id)}>
                        <bdi class="mono">{id}</bdi>
                      </a>
                      <p>
                        <bdi>{reason}</bdi>
                      </p>
                    </div>
                  </li>
                ))}
              </ul>
            </div>
          )}
          {run.error.value !== undefined && <Problem error={run.error.value} />}
          {state === 'running' && (
            <div class="sect">
              <p class="dim">{progressText(run, changed + refused, toGo)}</p>
            </div>
          )}
          {state === 'stopped' && (
            <div class="sect">
              <p class="dim">
                What was changed stays changed. Run it again to go on: it skips what is done.
              </p>
            </div>
          )}
        </>
      )}
    </section>
  );
}

function progressText(run: BulkRun, done: number, toGo: number | undefined): string {
  const seconds = Math.max(1, (Math.max(now.value, Date.now()) - run.startedAt) / 1_000);
  const perSecond = done / seconds;
  if (toGo === undefined || perSecond < 0.1)
    return `Running for ${formatDuration(seconds * 1_000)}`;
  return `${formatNumber(Math.round(perSecond))} a second, about ${formatDuration((toGo / perSecond) * 1_000)} to go`;
}
