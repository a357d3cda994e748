import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { CopyButton } from '../../components/copy-button.tsx';
import { Menu, type MenuItem } from '../../components/menu.tsx';
import { StatusChip } from '../../components/status.tsx';
import { Moment } from '../../components/text.tsx';
import { ask, type ActionKind } from '../../state/actions.ts';
import { instanceHref } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatNumber } from '../../words/format.ts';
import { ago } from '../../words/sentence.ts';
import { isActive, toneOf, type Tone } from '../../words/status.ts';
import type { InstanceState } from './instance-data.ts';
import { isVersion, versionText } from '../../words/version.ts';
import { WhyBanner } from './why/why-banner.tsx';

/** Id, status, actions, facts, and why. */
export function Header({
  data,
  reload,
  onDeleted,
}: {
  readonly data: InstanceState;
  readonly reload: () => void;
  readonly onDeleted: () => void;
}): JSX.Element {
  const { instance } = data;
  const size = useResource(
    `size ${instance.id} ${instance.executionId} ${instance.status}`,
    (signal) => call('measureInstance', { params: { id: instance.id } }, signal),
  ).data.value?.size;
  const isRetrying = (instance.pending ?? []).some(({ state }) => state === 'retrying');
  const tones: readonly Tone[] = [
    instance.status,
    ...(isActive(instance.status) && instance.blocked !== undefined ? (['blocked'] as const) : []),
    ...(isActive(instance.status) && instance.paused !== undefined ? (['paused'] as const) : []),
    ...(isRetrying && toneOf(instance) === 'running' ? (['retrying'] as const) : []),
  ];
  return (
    <div class="head">
      <div class="head-1">
        <h1>
          <bdi class="idtxt cut">{instance.id}</bdi>
          <span class="only-l">
            <CopyButton text={instance.id} label="Copy the id" />
          </span>
        </h1>
        {tones.map((tone) => (
          <StatusChip key={tone} tone={tone} />
        ))}
        <Actions data={data} reload={reload} onDeleted={onDeleted} />
      </div>
      <div class="meta">
        <span>
          <b>
            <bdi>{instance.name}</bdi>
          </b>
          {isVersion(instance.version) && ` ${versionText(instance.version)}`}
        </span>
        <span>
          {instance.startedAt === undefined ? 'Created ' : 'Started '}
          <b>
            <Moment at={instance.startedAt ?? instance.createdAt} />
          </b>
          , {ago(instance.startedAt ?? instance.createdAt)}
        </span>
        {instance.endedAt !== undefined && (
          <span>
            Ended{' '}
            <b>
              <Moment at={instance.endedAt} />
            </b>
          </span>
        )}
        <span class="only-l">
          Execution <b>{formatNumber(instance.executionId)}</b>
        </span>
        {size !== undefined && size.events > 0 && (
          <span class="only-l">
            <b>{formatNumber(size.events)}</b> events
          </span>
        )}
        {instance.parentId !== undefined && (
          <span>
            Child of{' '}
            <a class="link" href={instanceHref(instance.parentId)}>
              <bdi>{instance.parentId}</bdi>
            </a>
          </span>
        )}
        {instance.forkedFrom !== undefined && (
          <span>
            Forked from{' '}
            <a class="link" href={instanceHref(instance.forkedFrom.id)}>
              <bdi>{instance.forkedFrom.id}</bdi>
            </a>
          </span>
        )}
        {Object.entries(instance.tags ?? {}).map(([key, value]) => (
          <span key={key} class="only-l">
            <bdi>{key}</bdi>{' '}
            <b>
              <bdi>{value}</bdi>
            </b>
          </span>
        ))}
      </div>
      <WhyBanner data={data} />
    </div>
  );
}

function Actions({
  data: { instance },
  reload,
  onDeleted,
}: {
  readonly data: InstanceState;
  readonly reload: () => void;
  readonly onDeleted: () => void;
}): JSX.Element | null {
  if (!may('operate')) return null;
  const { id, name, status } = instance;
  const start = (action: ActionKind): void =>
    ask(action, { kind: 'instance', id, name, status }, action === 'delete' ? onDeleted : reload);
  const active = isActive(status);
  const isOrchestration = instance.kind === 'orchestration';
  const isRoot = instance.parentId === undefined;
  const canRetry =
    !active && isRoot && ['failed', 'canceled', 'terminated', 'expired'].includes(status);
  const items: MenuItem[] = [
    ...(isOrchestration ? [{ label: 'Fork…', onSelect: () => start('fork') }] : []),
    ...(isOrchestration
      ? [{ label: 'Run again with this input…', onSelect: () => start('runAgain') }]
      : []),
    ...(active ? [{ label: 'Terminate…', danger: true, onSelect: () => start('terminate') }] : []),
    ...(may('admin') && isRoot
      ? [
          { label: 'Prune executions…', danger: true, onSelect: () => start('prune') },
          {
            label: 'Delete…',
            danger: true,
            disabled: active && 'It has not ended.',
            onSelect: () => start('delete'),
          },
        ]
      : []),
  ];
  return (
    <div class="acts">
      {active && isOrchestration && status !== 'canceling' && (
        <Button class="only-l" onClick={() => start('raiseEvent')}>
          Send event
        </Button>
      )}
      {active && (
        <Button onClick={() => start(instance.paused === undefined ? 'pause' : 'resume')}>
          {instance.paused === undefined ? 'Pause' : 'Resume'}
        </Button>
      )}
      {canRetry && (
        <Button look="primary" onClick={() => start('retry')}>
          Retry…
        </Button>
      )}
      {active && status !== 'canceling' && (
        <Button look="danger" onClick={() => start('cancel')}>
          Cancel…
        </Button>
      )}
      {status === 'canceling' && (
        <Button look="danger" onClick={() => start('terminate')}>
          Terminate…
        </Button>
      )}
      {items.length > 0 && <Menu label="Fork, run again, terminate, delete" items={items} />}
    </div>
  );
}
