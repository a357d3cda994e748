import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

/**
 * A modal dialog. The browser keeps the focus inside, makes the page behind inert, and returns the focus when it closes.
 * Escape and a click outside close it.
 */
export function Dialog({
  title,
  label,
  class: className = 'confirm',
  onClose,
  children,
}: {
  readonly title?: ComponentChildren;
  /** The name of a dialog without a visible title. */
  readonly label?: string;
  readonly class?: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  // Before the next frame, so that keys typed immediately reach the dialog.
  useLayoutEffect(() => {
    const element = ref.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={`dlg ${className}`}
      aria-label={label}
      aria-labelledby={label === undefined ? 'dialog-title' : undefined}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      <div class="dlg-in">
        {title !== undefined && (
          <h2 id="dialog-title" class="dlg-title">
            {title}
          </h2>
        )}
        {children}
      </div>
    </dialog>
  );
}
