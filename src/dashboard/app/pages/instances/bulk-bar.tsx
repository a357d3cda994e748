import type { JSX } from 'preact';
import type { Signal } from '@preact/signals';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Menu } from '../../components/menu.tsx';
import { ask, type ActionKind, type ActionTarget } from '../../state/actions.ts';
import { query } from '../../state/router.ts';
import { matchingCount } from '../../state/view-counts.ts';
import { formatCount, formatNumber } from '../../words/format.ts';
import { toConditions } from './filter.ts';

/** Actions on the selected instances, or on all that match the filter. */
export function BulkBar({
  selected,
  isAllSelected,
  onDone,
}: {
  readonly selected: Signal<ReadonlySet<string>>;
  readonly isAllSelected: Signal<boolean>;
  readonly onDone: () => void;
}): JSX.Element | null {
  if (selected.value.size === 0 && !isAllSelected.value) return null;
  const matching = matchingCount.value;
  const selectAll = (): void => {
    isAllSelected.value = true;
  };
  const clear = (): void => {
    selected.value = new Set();
    isAllSelected.value = false;
  };
  const start = (action: ActionKind): void => {
    const target: ActionTarget = isAllSelected.value
      ? { kind: 'filter', conditions: toConditions(query.value), query: query.value.toString() }
      : { kind: 'ids', ids: [...selected.value] };
    ask(action, target, () => {
      clear();
      onDone();
    });
  };
  return (
    <div class="bulk" role="toolbar" aria-label="Bulk actions">
      <span>
        {isAllSelected.value ? (
          <>
            <b>{matching === undefined ? 'All' : formatCount(matching)}</b> that match
          </>
        ) : (
          <>
            <b>{formatNumber(selected.value.size)}</b> selected
          </>
        )}
      </span>
      {!isAllSelected.value && (
        <button class="link bulk-all only-l" type="button" onClick={selectAll}>
          {matching === undefined
            ? 'Select all that match'
            : `Select all ${formatCount(matching)} that match`}
        </button>
      )}
      {may('operate') && (
        <>
          <span class="sep only-l" />
          <Button look="ghost" class="only-l" onClick={() => start('pause')}>
            Pause
          </Button>
          <Button look="ghost" class="only-l" onClick={() => start('retry')}>
            Retry…
          </Button>
          <Button look="ghostDanger" class="bulk-first" onClick={() => start('cancel')}>
            Cancel…
          </Button>
          <Button look="ghostDanger" class="only-l" onClick={() => start('terminate')}>
            Terminate…
          </Button>
          <Menu
            look="ghost"
            label="More actions"
            items={[
              ...(isAllSelected.value
                ? []
                : [{ label: 'Select all that match', onSelect: selectAll }]),
              { label: 'Pause', onSelect: () => start('pause') },
              { label: 'Resume', onSelect: () => start('resume') },
              { label: 'Retry…', onSelect: () => start('retry') },
              { label: 'Send event…', onSelect: () => start('raiseEvent') },
              { label: 'Terminate…', danger: true, onSelect: () => start('terminate') },
              ...(may('admin')
                ? [{ label: 'Delete…', danger: true, onSelect: () => start('delete') }]
                : []),
            ]}
          />
        </>
      )}
      <span class="sep only-l" />
      <Button look="ghost" icon="close" label="Clear selection" onClick={clear} />
    </div>
  );
}
