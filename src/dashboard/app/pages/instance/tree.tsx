import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { signal, useSignal } from '@preact/signals';
import { ApiError } from '../../api/api-error.ts';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { Button } from '../../components/button.tsx';
import { Icon } from '../../components/icon.tsx';
import { Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { VirtualList } from '../../components/virtual-list.tsx';
import { now } from '../../state/clock.ts';
import { isLive } from '../../state/live.ts';
import { instanceHref, navigate } from '../../state/router.ts';
import { formatDuration, plural } from '../../words/format.ts';

type TreeItem = ResponseBody<'readTree'>['items'][number];
/** A row of the tree. `hidden`: how many of its descendants are hidden; absent without descendants. */
type Node = TreeItem & { readonly hidden?: number };
const pageSize = 500;
const refreshMs = 3_000;

/** The instance and its descendants. */
export function Tree({ id }: { readonly id: string }): JSX.Element {
  const tree = useMemo(() => new TreeReader(id), [id]);
  const [current, setCurrent] = useState(-1);
  useEffect(() => {
    void tree.readMore();
    const timer = setInterval(() => {
      if (isLive.peek()) void tree.refresh();
    }, refreshMs);
    return () => {
      clearInterval(timer);
      tree.stop();
    };
  }, [tree]);
  const closed = useSignal<ReadonlySet<string>>(new Set());
  const all = tree.nodes.value;
  const nodes = useMemo(() => withoutClosed(all, closed.value), [all, closed.value]);
  const toggle = (node: Node | undefined, isClosed?: boolean): void => {
    if (node === undefined || node.hidden === undefined) return;
    const next = new Set(closed.peek());
    if (isClosed ?? !next.has(node.id)) next.add(node.id);
    else next.delete(node.id);
    closed.value = next;
  };
  const hasBranches = nodes.some(({ depth, hidden }) => depth > 0 && hidden !== undefined);
  if (nodes.length === 0) {
    return tree.error.value === undefined ? (
      <Loading />
    ) : (
      <Problem error={tree.error.value} retry={() => void tree.readMore()} />
    );
  }
  return (
    <>
      <div class="tl-tools">
        <span>
          {plural(all.length, 'instance')}
          {!tree.isComplete.value && ' so far'}
        </span>
        {hasBranches && (
          <div class="right">
            <Button
              small
              look="ghost"
              onClick={() => {
                closed.value =
                  closed.value.size > 0
                    ? new Set()
                    : new Set(
                        nodes.flatMap(({ id: one, depth, hidden }) =>
                          depth > 0 && hidden !== undefined ? [one] : [],
                        ),
                      );
              }}
            >
              {closed.value.size > 0 ? 'Expand all' : 'Collapse all'}
            </Button>
          </div>
        )}
      </div>
      <div
        class="tree"
        onKeyDown={(event) => {
          if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
          event.preventDefault();
          toggle(nodes[current], event.key === 'ArrowLeft');
        }}
      >
        <VirtualList
          label="Tree"
          rowName="tr"
          count={nodes.length}
          current={current}
          onCurrent={setCurrent}
          onOpen={(index) => {
            const node = nodes[index];
            if (node !== undefined) navigate(instanceHref(node.id));
          }}
          onEnd={() => void tree.readMore()}
          header={
            <div class="tr h" role="row" aria-rowindex={1}>
              <span role="columnheader">Instance</span>
              <span role="columnheader">Name</span>
              <span role="columnheader">Status</span>
              <span role="columnheader" class="r">
                Duration
              </span>
            </div>
          }
          row={(index) => {
            const node = nodes[index];
            if (node === undefined) return <span role="gridcell" />;
            return (
              <>
                <span
                  role="gridcell"
                  class="id cut"
                  style={{ '--d': String(Math.min(node.depth, 20)) }}
                >
                  {node.hidden === undefined ? (
                    <i class="tree-gap" />
                  ) : (
                    <button
                      type="button"
                      class="tree-toggle"
                      tabIndex={-1}
                      aria-label={`${node.hidden === 0 ? 'Hide' : 'Show'} the descendants of ${node.id}`}
                      aria-expanded={node.hidden === 0}
                      onClick={() => toggle(node)}
                    >
                      <Icon small name={node.hidden === 0 ? 'chevronDown' : 'chevronRight'} />
                    </button>
                  )}
                  <a class="cut" href={instanceHref(node.id)} tabIndex={-1}>
                    <bdi>{node.id}</bdi>
                  </a>
                  {(node.hidden ?? 0) > 0 && (
                    <span class="dim tree-more">{plural(node.hidden ?? 0, 'descendant')}</span>
                  )}
                </span>
                <span role="gridcell" class="cut">
                  <bdi>{node.name}</bdi>
                </span>
                <span role="gridcell">
                  <Status tone={node.status} />
                </span>
                <span role="gridcell" class="r sec tnum">
                  {node.startedAt === undefined
                    ? ''
                    : formatDuration((node.endedAt ?? now.value) - node.startedAt)}
                </span>
              </>
            );
          }}
        />
      </div>
    </>
  );
}

/** Removes the descendants of closed instances, which follow them with a greater depth. */
function withoutClosed(items: readonly TreeItem[], closed: ReadonlySet<string>): readonly Node[] {
  const shown: Node[] = [];
  for (let at = 0; at < items.length;) {
    const item = items[at] as TreeItem;
    let next = at + 1;
    while (next < items.length && (items[next] as TreeItem).depth > item.depth) next += 1;
    const descendants = next - at - 1;
    const isClosed = closed.has(item.id);
    shown.push(descendants === 0 ? item : { ...item, hidden: isClosed ? descendants : 0 });
    at = isClosed ? next : at + 1;
  }
  return shown;
}

class TreeReader {
  readonly nodes = signal<readonly TreeItem[]>([]);
  readonly error = signal<ApiError | undefined>(undefined);
  readonly isComplete = signal(false);
  readonly #id: string;
  readonly #stopped = new AbortController();
  #cursor: string | undefined;
  #reading = false;

  constructor(id: string) {
    this.#id = id;
  }

  stop(): void {
    this.#stopped.abort();
  }

  readMore(): Promise<void> {
    if (this.isComplete.peek()) return Promise.resolve();
    return this.#read(this.#cursor, (items) => [...this.nodes.peek(), ...items]);
  }

  /** Reads the first page again, which is all that most trees have. */
  refresh(): Promise<void> {
    if (this.nodes.peek().length > pageSize) return Promise.resolve();
    return this.#read(undefined, (items) => items);
  }

  async #read(
    cursor: string | undefined,
    take: (items: readonly TreeItem[]) => readonly TreeItem[],
  ): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    try {
      const page = await call(
        'readTree',
        {
          params: { id: this.#id },
          query: { limit: pageSize, ...(cursor !== undefined && { cursor }) },
        },
        this.#stopped.signal,
      );
      this.nodes.value = take(page.items);
      this.#cursor = page.nextCursor;
      this.isComplete.value = page.nextCursor === undefined;
      this.error.value = undefined;
    } catch (error) {
      if (!this.#stopped.signal.aborted && error instanceof ApiError && !error.isUnreachable)
        this.error.value = error;
    } finally {
      this.#reading = false;
    }
  }
}
