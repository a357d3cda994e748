import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { ApiError } from '../../api/api-error.ts';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { VirtualList } from '../../components/virtual-list.tsx';
import { now } from '../../state/clock.ts';
import { isLive } from '../../state/live.ts';
import { instanceHref, navigate } from '../../state/router.ts';
import { formatDuration, plural } from '../../words/format.ts';

type Node = ResponseBody<'readTree'>['items'][number];
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
  const nodes = tree.nodes.value;
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
          {plural(nodes.length, 'instance')}
          {!tree.isComplete.value && ' so far'}
        </span>
      </div>
      <div class="tree">
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
                  style={{ paddingLeft: `${Math.min(node.depth, 20) * 20}px` }}
                >
                  <a href={instanceHref(node.id)} tabIndex={-1}>
                    <bdi>{node.id}</bdi>
                  </a>
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

class TreeReader {
  readonly nodes = signal<readonly Node[]>([]);
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
    take: (items: readonly Node[]) => readonly Node[],
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
