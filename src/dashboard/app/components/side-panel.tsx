import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { addKeys } from '../state/page-keys.ts';
import { Button } from './button.tsx';

/** Details of the selected row, beside the list. Escape closes it and returns the focus to the row. */
export function SidePanel({
  label,
  title,
  status,
  onClose,
  children,
}: {
  readonly label: string;
  readonly title: string;
  readonly status: ComponentChildren;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const panel = useRef<HTMLElement>(null);
  const opener = useRef<Element | null>(null);
  const close = (): void => {
    const before = opener.current;
    onClose();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
  };
  useLayoutEffect(() => {
    const before = document.activeElement;
    if (before?.closest('table') != null) {
      opener.current = before;
      // Where the panel follows the list, it may be out of sight.
      panel.current?.scrollIntoView({ block: 'nearest' });
    }
    return addKeys([{ key: 'Escape', description: 'Close the details', run: close }]);
  }, []);
  return (
    <aside class="aside" aria-label={label} ref={panel}>
      <div class="ph">
        <h2 class="cut" title={title}>
          <bdi>{title}</bdi>
        </h2>
        {status}
        <span class="grow" />
        <Button small look="ghost" icon="close" label="Close (Esc)" onClick={close} />
      </div>
      {children}
    </aside>
  );
}
