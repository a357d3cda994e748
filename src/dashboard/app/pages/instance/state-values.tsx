import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { call } from '../../api/call.ts';
import { JsonView } from '../../components/json-view.tsx';
import { Panel } from '../../components/panel.tsx';
import { LoadState } from '../../components/states.tsx';
import { useResource } from '../../state/resource.ts';
import type { InstanceState } from './instance-data.ts';

/** The values of `ctx.state`. They are read again whenever the instance has changed. */
export function StateValues({ data: shown }: { readonly data: InstanceState }): JSX.Element {
  const { id } = shown.instance;
  const page = useResource(`state ${id}`, (signal) =>
    call('readState', { params: { id }, query: {} }, signal),
  );
  useEffect(() => page.reload(), [shown]);
  const { value: data } = page.data;
  return (
    <Panel
      title="State"
      right={data !== undefined && data.items.length > 0 && <span>{data.items.length} keys</span>}
    >
      <div class="panel-p">
        <LoadState of={page} rows={2} />
        {data?.items.length === 0 && <p class="dim">The code has not called ctx.state.set.</p>}
        {data?.items.map(({ key, value }) => (
          <section key={key}>
            <h3>
              <bdi>{key}</bdi>
            </h3>
            <JsonView text={JSON.stringify(value)} label={key} />
          </section>
        ))}
        {data?.nextKey !== undefined && (
          <p class="dim">There are more keys. Read them with `perdure state`.</p>
        )}
      </div>
    </Panel>
  );
}
