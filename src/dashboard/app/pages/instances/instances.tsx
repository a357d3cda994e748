import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { call } from '../../api/call.ts';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Checkbox } from '../../components/checkbox.tsx';
import { Icon } from '../../components/icon.tsx';
import { Menu } from '../../components/menu.tsx';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { VirtualList } from '../../components/virtual-list.tsx';
import { addKeys } from '../../state/page-keys.ts';
import { TopBar } from '../../shell/top-bar.tsx';
import { reconnections } from '../../api/connection.ts';
import { ask } from '../../state/actions.ts';
import { highlighted } from '../../state/highlighted.ts';
import { lastList } from '../../state/last-list.ts';
import { isLive } from '../../state/live.ts';
import { instanceHref, navigate, query } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { BulkBar } from './bulk-bar.tsx';
import { chosenColumns, optionalColumns, shownColumns } from './columns.tsx';
import { FilterBar } from './filter-bar.tsx';
import { hasConditions, toConditions } from './filter.ts';
import { InstanceRows, type Row } from './instance-rows.ts';
import { NewPill, StatusBar } from './status-bar.tsx';
import { ViewBar } from './view-bar.tsx';

const refreshMs = 2_000;

/** The list of instances: filters, counts, rows, and actions on many. */
export function Instances(): JSX.Element {
  const search = query.value.toString();
  const list = useMemo(() => new InstanceRows(() => toConditions(query.peek())), [search]);
  const definitions = useResource('definitions', (signal) => call('listDefinitions', {}, signal), {
    everyMs: 30_000,
  });
  const names = useMemo(
    () => [...new Set((definitions.data.value?.items ?? []).map(({ name }) => name))].sort(),
    [definitions.data.value],
  );
  const [current, showCurrent] = useState(-1);
  // Keys read it before the next render.
  const currentAt = useRef(-1);
  const setCurrent = (index: number): void => {
    currentAt.current = index;
    showCurrent(index);
  };
  const isAtTop = useSignal(true);
  const selected = useSignal<ReadonlySet<string>>(new Set());
  const isAllSelected = useSignal(false);

  useEffect(() => {
    void list.refresh();
    setCurrent(-1);
    selected.value = new Set();
    isAllSelected.value = false;
    const timer = setInterval(() => {
      if (isLive.peek()) void list.readNew(isAtTop.peek());
    }, refreshMs);
    const dispose = reconnections.subscribe(() => void list.reconnect(isAtTop.peek()));
    return () => {
      clearInterval(timer);
      dispose();
      list.stop();
      lastList.value = { ids: list.rows.peek().map(({ id }) => id), query: search };
    };
  }, [list]);

  const rows = list.rows.value;
  const currentId = rows[current]?.id;
  useEffect(() => {
    highlighted.value = currentId;
    return () => {
      highlighted.value = undefined;
    };
  }, [currentId]);
  const currentRow = (): Row | undefined => list.rows.peek()[currentAt.current];
  const toggle = (id: string): void => {
    const next = new Set(selected.peek());
    if (!next.delete(id)) next.add(id);
    selected.value = next;
    isAllSelected.value = false;
  };
  // Keys act on what was rendered last, also before the effects of that render have run.
  useLayoutEffect(
    () =>
      addKeys([
        {
          key: 'j',
          description: 'Next instance',
          run: () => setCurrent(Math.min(list.rows.peek().length - 1, currentAt.current + 1)),
        },
        {
          key: 'k',
          description: 'Previous instance',
          run: () => setCurrent(Math.max(0, currentAt.current - 1)),
        },
        {
          key: 'x',
          description: 'Select the instance',
          run: () => {
            const row = currentRow();
            if (row !== undefined) toggle(row.id);
          },
        },
        {
          key: 'Enter',
          description: 'Open the instance',
          run: () => {
            const row = currentRow();
            if (row !== undefined) navigate(instanceHref(row.id));
          },
        },
        {
          key: 'c',
          description: 'Cancel the selected instances',
          run: () => {
            if (!may('operate')) return;
            const row = currentRow();
            const ids =
              selected.peek().size > 0 ? [...selected.peek()] : row === undefined ? [] : [row.id];
            const done = (): void => {
              selected.value = new Set();
              isAllSelected.value = false;
              void list.refresh();
            };
            if (isAllSelected.peek()) {
              const conditions = toConditions(query.peek());
              ask('cancel', { kind: 'filter', conditions, query: query.peek().toString() }, done);
            } else if (ids.length > 0) ask('cancel', { kind: 'ids', ids }, done);
          },
        },
      ]),
    [list],
  );

  const columns = shownColumns();
  const template = (shown: typeof columns): string =>
    `20px ${shown.map(({ width }) => width).join(' ')}`;
  // The style sheet hides these columns on narrow screens.
  const narrow = columns.filter(({ class: name }) => !name.includes('c-wk'));
  const allShown = rows.length > 0 && rows.every(({ id }) => selected.value.has(id));
  const explanations = list.explanations.value;
  return (
    <>
      <TopBar title="Instances">
        {may('operate') && (
          <Button
            small
            icon="plus"
            onClick={() => ask('runAgain', { kind: 'instance', id: '', name: '', status: '' })}
          >
            Start
          </Button>
        )}
      </TopBar>
      <ViewBar />
      <div class="filters">
        <FilterBar names={names} />
        <Menu
          label="Columns"
          icon="columns"
          text="Columns"
          items={optionalColumns.map(({ key, title }) => ({
            label: `${chosenColumns.value.includes(key) ? 'Hide' : 'Show'} ${title.toLowerCase()}`,
            onSelect: () => {
              const chosen = chosenColumns.peek();
              chosenColumns.value = chosen.includes(key)
                ? chosen.filter((one) => one !== key)
                : [...chosen, key];
            },
          }))}
        />
      </div>
      <StatusBar newCount={list.newCount} onShowNew={() => void list.refresh()} />
      {list.error.value !== undefined && (
        <Problem error={list.error.value} retry={() => void list.refresh()} />
      )}
      {rows.length === 0 && list.isLoading.value && <Loading rows={12} />}
      {rows.length === 0 && !list.isLoading.value && list.error.value === undefined && (
        <NoInstances />
      )}
      {rows.length > 0 && (
        <div
          class="list-box"
          style={{
            '--list-columns': template(columns),
            '--list-columns-narrow': template(narrow),
          }}
        >
          <NewPill class="only-s" newCount={list.newCount} onShowNew={() => void list.refresh()} />
          <VirtualList
            label="Instances"
            count={rows.length}
            current={current}
            onCurrent={setCurrent}
            onOpen={(index) => {
              const row = rows[index];
              if (row !== undefined) navigate(instanceHref(row.id));
            }}
            onEnd={() => void list.readMore()}
            onVisible={(first, last) => list.watch(rows.slice(first, last))}
            onScrolled={(top) => {
              isAtTop.value = top;
            }}
            rowClass={(index) =>
              selected.value.has(rows[index]?.id ?? '') || isAllSelected.value ? 'sel' : ''
            }
            isSelected={(index) => isAllSelected.value || selected.value.has(rows[index]?.id ?? '')}
            header={
              <div class="vr h" role="row" aria-rowindex={1}>
                <span class="c-ck" role="columnheader">
                  <Checkbox
                    checked={allShown ? true : selected.value.size > 0 ? 'mixed' : false}
                    label="Select all that are loaded"
                    onChange={(checked) => {
                      selected.value = new Set(checked ? rows.map(({ id }) => id) : []);
                      isAllSelected.value = false;
                    }}
                  />
                </span>
                {columns.map(({ key, title, class: name }) => (
                  <span key={key} class={name.replace(/\b(id|now|nm)\b/, '')} role="columnheader">
                    {title}
                    {key === 'age' && <Icon small name="up" label="newest first" />}
                  </span>
                ))}
              </div>
            }
            row={(index) => {
              const row = rows[index];
              if (row === undefined) return <span role="gridcell" />;
              return (
                <>
                  <span class="c-ck" role="gridcell">
                    <Checkbox
                      checked={isAllSelected.value || selected.value.has(row.id)}
                      label={`Select ${row.id}`}
                      tabIndex={-1}
                      onChange={() => toggle(row.id)}
                    />
                  </span>
                  {columns.map(({ key, class: name, cell }) => (
                    <span key={key} class={name} role="gridcell">
                      {cell(row, explanations.get(row.id))}
                    </span>
                  ))}
                </>
              );
            }}
          />
        </div>
      )}
      <BulkBar
        selected={selected}
        isAllSelected={isAllSelected}
        onDone={() => void list.refresh()}
      />
    </>
  );
}

function NoInstances(): JSX.Element {
  if (hasConditions(query.value)) {
    return (
      <Empty icon="search" title="No instance matches the filter.">
        Remove a condition, or clear the filter to see all instances.
      </Empty>
    );
  }
  return (
    <Empty title="No instances yet.">
      Start one from your code, and it appears here:
      <pre class="code">{`await perdure.client.start(fulfilOrder, { order: '48184' });`}</pre>
    </Empty>
  );
}
