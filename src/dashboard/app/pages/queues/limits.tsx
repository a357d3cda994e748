import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Meter, Panel } from '../../components/panel.tsx';
import { SidePanel } from '../../components/side-panel.tsx';
import { Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { Row, Table, type TableColumn } from '../../components/table.tsx';
import { Until } from '../../components/text.tsx';
import { setQuery } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatNumber } from '../../words/format.ts';
import { limitsText, waitingText, type Limits } from '../../words/limits.ts';
import { LimitsDialog } from './limits-dialog.tsx';

const columns: readonly TableColumn[] = [
  { title: 'Name', width: '26%' },
  { title: 'Limits' },
  { title: 'In use', width: '12%', isNumber: true },
  { title: '', width: '14%', small: 'hidden' },
  { title: 'Waiting', width: '10%', isNumber: true },
  { title: 'Next start', width: '12%', isNumber: true },
];
const keyColumns: readonly TableColumn[] = [
  { title: 'Key' },
  { title: 'In use', width: '18%', isNumber: true },
  { title: 'Waiting', width: '20%', isNumber: true },
  { title: 'Waits for', width: '26%', small: 'untitled' },
];
const heldWords = { global: 'a place', perKey: 'a place', rate: 'its rate' } as const;

/** The definition in the address: its kind and name. */
export function limitId({ kind, name }: Pick<Limits, 'kind' | 'name'>): string {
  return `${kind}:${name}`;
}

/** The definitions that have limits or keys: what they allow, and how much of it is used. */
export function LimitTable({
  items,
  chosen,
}: {
  readonly items: readonly Limits[];
  readonly chosen: Limits | undefined;
}): JSX.Element {
  return (
    <Panel title="Limits" class="gap-bottom">
      <Table label="Limits" columns={columns}>
        {items.map((limits) => (
          <Row
            key={limitId(limits)}
            isSelected={limits === chosen}
            cells={[
              <button
                type="button"
                class="plain-link link cut"
                title={limits.name}
                aria-expanded={limits === chosen}
                onClick={() => setQuery({ limit: limitId(limits) }, { replace: true })}
              >
                <bdi>{limits.name}</bdi>
              </button>,
              <span>
                {limitsText(limits.effective)}
                {limits.override !== undefined && <span class="dim"> (changed)</span>}
              </span>,
              inUse(limits),
              limits.effective.global !== undefined && (
                <Meter
                  value={(limits.running / limits.effective.global) * 100}
                  {...(isFull(limits) && limits.waiting > 0 && { tone: 'retrying' })}
                />
              ),
              waitingText(limits.waiting),
              limits.nextTokenAt !== undefined && <Until at={limits.nextTokenAt} />,
            ]}
          />
        ))}
      </Table>
    </Panel>
  );
}

function isFull({ running, effective: { global } }: Limits): boolean {
  return global !== undefined && running >= global;
}

function inUse({ running, effective: { global } }: Limits): string {
  if (global !== undefined) return `${formatNumber(running)} of ${formatNumber(global)}`;
  return running === 0 ? '' : formatNumber(running);
}

/** The limits of one definition, where they come from, and its keys. */
export function LimitPanel({
  limits,
  reload,
}: {
  readonly limits: Limits;
  readonly reload: () => void;
}): JSX.Element {
  const { kind, name, effective, declared, declaredBy, override } = limits;
  const [asking, setAsking] = useState<'set' | 'reset'>();
  const keys = useResource(
    `limit keys ${limitId(limits)}`,
    (signal) => call('listLimitKeys', { params: { name }, query: { kind, limit: 100 } }, signal),
    { everyMs: 2_000 },
  );
  const items = keys.data.value?.items;
  return (
    <SidePanel
      label={`Limits of ${name}`}
      title={name}
      status={
        isFull(limits) ? (
          <Status tone="retrying" text="Full" />
        ) : (
          <Status tone="running" text="Has room" />
        )
      }
      onClose={() => setQuery({ limit: undefined }, { replace: true })}
    >
      {may('operate') && (
        <div class="sect acts-row">
          <Button small onClick={() => setAsking('set')}>
            Change…
          </Button>
          {override !== undefined && (
            <Button small onClick={() => setAsking('reset')}>
              Reset…
            </Button>
          )}
        </div>
      )}
      <div class="sect">
        <dl class="kv">
          <dt>Kind</dt>
          <dd>{kind}</dd>
          <dt>Limits</dt>
          <dd>{limitsText(effective)}</dd>
          <dt>In the code</dt>
          <dd>
            {limitsText(declared)}
            {declaredBy !== undefined && (
              <>
                , build <code>{declaredBy}</code>
              </>
            )}
          </dd>
          <dt>In use</dt>
          <dd>{inUse(limits) === '' ? '0' : inUse(limits)}</dd>
          <dt>Waiting</dt>
          <dd>{limits.waiting === 0 ? '0' : waitingText(limits.waiting)}</dd>
        </dl>
      </div>
      <div class="sect">
        <h3>Keys with the most waiting runs</h3>
        {keys.error.value !== undefined && (
          <Problem error={keys.error.value} retry={() => keys.reload()} />
        )}
        {items?.length === 0 && <p class="dim">No runs wait or hold a place.</p>}
        {items !== undefined && items.length > 0 && (
          <Table label="Keys" columns={keyColumns}>
            {items.map((one) => (
              <KeyRow key={one.key} item={one} />
            ))}
          </Table>
        )}
      </div>
      {asking !== undefined && (
        <LimitsDialog
          limits={limits}
          action={asking}
          onClose={() => setAsking(undefined)}
          onDone={() => {
            reload();
            keys.reload();
          }}
        />
      )}
    </SidePanel>
  );
}

function KeyRow({
  item,
}: {
  readonly item: ResponseBody<'listLimitKeys'>['items'][number];
}): JSX.Element {
  const { key, weight, running, waiting, heldBy, nextAt } = item;
  return (
    <Row
      cells={[
        <span class="cut" title={key}>
          {key === '' ? <span class="dim">no key</span> : <bdi>{key}</bdi>}
          {weight !== 1 && <span class="dim"> ×{weight}</span>}
        </span>,
        running === 0 ? '' : formatNumber(running),
        waitingText(waiting),
        heldBy !== undefined && (
          <span class="sec">
            {heldWords[heldBy]}
            {nextAt !== undefined && (
              <>
                , <Until at={nextAt} />
              </>
            )}
          </span>
        ),
      ]}
    />
  );
}
