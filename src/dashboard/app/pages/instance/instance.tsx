import type { JSX } from 'preact';
import { useLayoutEffect } from 'preact/hooks';
import { call } from '../../api/call.ts';
import { session } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Icon } from '../../components/icon.tsx';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { Tabs, type Tab } from '../../components/tabs.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { lastList, neighbours } from '../../state/last-list.ts';
import { addKeys } from '../../state/page-keys.ts';
import { href, instanceHref, navigate } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { isActive } from '../../words/status.ts';
import { isFlowVersion } from '../../words/version.ts';
import { Blocked } from './blocked.tsx';
import { Executions } from './executions.tsx';
import { FlowTab } from './flow-tab.tsx';
import { Header } from './header.tsx';
import { History } from './history.tsx';
import { useInstance, type InstanceState } from './instance-data.ts';
import { Payloads } from './payloads.tsx';
import { Raw } from './raw.tsx';
import { State } from './state.tsx';
import { Stream } from './stream.tsx';
import { TimelineTab } from './timeline/timeline-tab.tsx';
import { Tree } from './tree.tsx';

/** A tree with more instances has no number on its tab. */
const countedNodes = 100;

/** One instance: why it is in its state, what it did, and what can be done. */
export function Instance({ segments }: { readonly segments: readonly string[] }): JSX.Element {
  const [id = '', tab] = segments;
  const resource = useInstance(id);
  const data = resource.data.value;
  const error = resource.error.value;
  const links = session.value?.links ?? [];
  const { before, after } = neighbours(id);
  useLayoutEffect(() => {
    const open = (to: string | undefined) => (): void => {
      if (to !== undefined) navigate(instanceHref(to));
    };
    return before === undefined && after === undefined
      ? undefined
      : addKeys([
          { key: 'j', description: 'Next instance of the list', run: open(after) },
          { key: 'k', description: 'Previous instance of the list', run: open(before) },
        ]);
  }, [before, after]);
  return (
    <>
      <TopBar
        title={id}
        crumbs={[
          { text: 'Instances', href: href(['instances'], lastList.value.query) },
          { text: id, mono: true },
        ]}
      >
        {data !== undefined &&
          links.map(({ label, href: template }) => (
            <a
              key={label}
              class="btn s ghost only-l"
              href={fill(template, { id, name: data.instance.name })}
              target="_blank"
              rel="noreferrer"
            >
              <Icon name="external" />
              {label}
            </a>
          ))}
        {(before ?? after) !== undefined && (
          <span class="only-l top-steps">
            <StepLink to={before} icon="up" label="Previous instance of the list (k)" />
            <StepLink to={after} icon="down" label="Next instance of the list (j)" />
          </span>
        )}
      </TopBar>
      {error?.code === 'INSTANCE_NOT_FOUND' ? (
        <Empty
          icon="search"
          title={data === undefined ? 'There is no such instance.' : 'This instance was deleted.'}
        >
          <p>
            Nothing is stored under the id <bdi class="mono">{id}</bdi>: it was deleted, removed by
            retention, or never started.
          </p>
          <p>
            <a class="link" href={href(['instances'])}>
              Show all instances
            </a>
          </p>
        </Empty>
      ) : (
        <>
          {error !== undefined && <Problem error={error} retry={() => resource.reload()} />}
          {data === undefined && error === undefined && <Loading rows={10} />}
          {data !== undefined && <Shown data={data} tab={tab} reload={() => resource.reload()} />}
        </>
      )}
    </>
  );
}

/** A link to a neighbour in the list; without one it keeps its place. */
function StepLink({
  to,
  icon,
  label,
}: {
  readonly to: string | undefined;
  readonly icon: 'up' | 'down';
  readonly label: string;
}): JSX.Element {
  return to === undefined ? (
    <Button small disabled look="ghost" icon={icon} label={label} />
  ) : (
    <a class="btn icon s ghost" href={instanceHref(to)} aria-label={label} title={label}>
      <Icon name={icon} />
    </a>
  );
}

function Shown({
  data,
  tab,
  reload,
}: {
  readonly data: InstanceState;
  readonly tab: string | undefined;
  readonly reload: () => void;
}): JSX.Element {
  const { instance } = data;
  const { id } = instance;
  const titles: readonly (readonly [id: string, title: string])[] = [
    ...(instance.blocked === undefined ? [] : [['blocked', 'Blocked'] as const]),
    ...(isFlowVersion(instance.version) ? [['flow', 'Flow'] as const] : []),
    ...(instance.kind === 'task'
      ? []
      : [['timeline', 'Timeline'] as const, ['history', 'History'] as const]),
    ['tree', 'Tree'],
    ['payloads', 'Payloads'],
    ['state', 'State'],
    ['stream', 'Stream'],
    ['executions', 'Executions'],
    ['raw', 'Raw'],
  ];
  const size = useResource(
    `events ${id} ${instance.executionId} ${instance.status}`,
    (signal) => call('measureInstance', { params: { id } }, signal),
    { ...(isActive(instance.status) && { everyMs: 10_000 }) },
  ).data.value?.size;
  const hasChildren = (size?.children ?? 0) > 0;
  const tree = useResource(`tree of ${id} ${hasChildren} ${instance.status}`, (signal) =>
    hasChildren
      ? call('readTree', { params: { id }, query: { limit: countedNodes } }, signal)
      : Promise.resolve(undefined),
  ).data.value;
  const payloads = [instance.input, instance.output, instance.failure];
  const counts: Readonly<Record<string, number | undefined>> = {
    history: size?.events === 0 ? undefined : size?.events,
    tree: tree?.nextCursor === undefined ? tree?.items.length : undefined,
    payloads: payloads.filter((one) => one !== undefined).length || undefined,
    executions: instance.executionId,
  };
  const tabs: readonly Tab[] = titles.map(([one, title], index) => ({
    id: one,
    title,
    ...(counts[one] !== undefined && { count: counts[one] }),
    href: index === 0 ? instanceHref(id) : instanceHref(id, one),
  }));
  const current = tabs.some((one) => one.id === tab) ? (tab ?? '') : (tabs[0]?.id ?? '');
  return (
    <>
      <Header data={data} reload={reload} onDeleted={() => navigate(href(['instances']))} />
      <Tabs label="Views of the instance" tabs={tabs} current={current} />
      {current === 'blocked' && <Blocked data={data} />}
      {current === 'flow' && <FlowTab id={id} />}
      {current === 'timeline' && <TimelineTab data={data} />}
      {current === 'history' && <History data={data} />}
      {current === 'tree' && <Tree id={id} />}
      {current === 'payloads' && <Payloads data={data} />}
      {current === 'state' && <State data={data} />}
      {current === 'stream' && <Stream data={data} />}
      {current === 'executions' && <Executions id={id} current={instance.executionId} />}
      {current === 'raw' && <Raw data={data} />}
    </>
  );
}

function fill(template: string, values: Readonly<Record<string, string>>): string {
  return template.replaceAll(/\{(\w+)\}/g, (whole, key: string) => {
    const value = values[key];
    return value === undefined ? whole : encodeURIComponent(value);
  });
}
