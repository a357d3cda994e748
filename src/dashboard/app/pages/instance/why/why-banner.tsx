import type { JSX } from 'preact';
import { Icon } from '../../../components/icon.tsx';
import { Meter } from '../../../components/panel.tsx';
import { now } from '../../../state/clock.ts';
import { formatDuration } from '../../../words/format.ts';
import { moment } from '../../../words/sentence.ts';
import { statusWords } from '../../../words/status.ts';
import { isFlowVersion } from '../../../words/version.ts';
import { useFlowSummary } from './flow-summary.tsx';
import type { InstanceState } from '../instance-data.ts';
import { mostTelling, toneOfWait } from './waits.ts';
import { tellWhy } from './why-sentence.tsx';

/** The answer to "why is it in this state", in one sentence with a line of consequence. */
export function WhyBanner({ data }: { readonly data: InstanceState }): JSX.Element {
  const { why, instance } = data;
  const main = mostTelling(why.waits);
  const tone = main === undefined ? 'neutral' : toneOfWait(main);
  // Of a flow, the steps tell more than the operations of its interpreter.
  const isOfSteps =
    isFlowVersion(instance.version) && (main?.kind === 'activity' || main?.kind === 'event');
  const ofFlow = useFlowSummary(instance.id, isOfSteps, why);
  const { sentence, consequence } = ofFlow ?? tellWhy(main, why);
  return (
    <>
      <div class="why" data-st={tone} role="status">
        <Icon name={statusWords[tone].icon} />
        <p>
          {sentence}
          {consequence !== undefined && consequence !== '' && <small>{consequence}</small>}
        </p>
      </div>
      <CleanupLimit data={data} />
    </>
  );
}

/** How much of the time for the clean-up is used. */
function CleanupLimit({ data }: { readonly data: InstanceState }): JSX.Element | null {
  const cancel = data.why.waits.find((wait) => wait.kind === 'cancel');
  if (cancel?.kind !== 'cancel' || cancel.cleanupUntil === undefined) return null;
  const all = Math.max(1, cancel.cleanupUntil - cancel.requestedAt);
  // A clock that is off must not show a negative time.
  const used = Math.max(0, Math.min(all, now.value - cancel.requestedAt));
  return (
    <div class="limit">
      <span>Clean-up limit</span>
      <Meter value={(used / all) * 100} tone="canceling" />
      <span>
        <b>{formatDuration(Math.floor(used / 1_000) * 1_000)}</b> of {formatDuration(all)}, until{' '}
        {moment(cancel.cleanupUntil)}
      </span>
    </div>
  );
}
