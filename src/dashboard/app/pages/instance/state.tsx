import type { JSX } from 'preact';
import { Panel } from '../../components/panel.tsx';
import type { InstanceState } from './instance-data.ts';
import { Value } from './payloads.tsx';
import { StateValues } from './state-values.tsx';

/** What the instance shows of itself: custom status, state and tags. */
export function State({ data }: { readonly data: InstanceState }): JSX.Element {
  const { instance } = data;
  const tags = Object.entries(instance.tags ?? {});
  return (
    <div class="wrap two payloads">
      <Panel
        title="Custom status"
        right={
          instance.customStatusVersion !== undefined && (
            <span>set {instance.customStatusVersion} times</span>
          )
        }
      >
        <div class="panel-p">
          <Value
            value={instance.customStatus}
            label="custom status"
            none="The code has not called setCustomStatus."
            isDamaged={instance.undecodable?.includes('customStatus') ?? false}
          />
        </div>
      </Panel>
      {instance.kind === 'orchestration' && <StateValues data={data} />}
      <Panel title="Tags">
        <div class="panel-p">
          {tags.length === 0 ? (
            <p class="dim">None. Pass `tags` on start, or call setTags in the code.</p>
          ) : (
            <dl class="kv">
              {tags.map(([key, value]) => (
                <>
                  <dt key={key}>
                    <bdi>{key}</bdi>
                  </dt>
                  <dd>
                    <bdi>{value}</bdi>
                  </dd>
                </>
              ))}
            </dl>
          )}
        </div>
      </Panel>
      {instance.task !== undefined && (
        <Panel title="Task run">
          <dl class="kv panel-p">
            <dt>Priority</dt>
            <dd>{instance.task.priority}</dd>
            <dt>Failures</dt>
            <dd>{instance.task.failures}</dd>
            {instance.task.dedupeKey !== undefined && (
              <>
                <dt>Dedupe key</dt>
                <dd>
                  <bdi>{instance.task.dedupeKey}</bdi>
                </dd>
              </>
            )}
            {instance.task.onFail !== undefined && (
              <>
                <dt>On-fail task</dt>
                <dd>{instance.task.onFail}</dd>
              </>
            )}
          </dl>
        </Panel>
      )}
    </div>
  );
}
