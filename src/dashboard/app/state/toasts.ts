import { signal } from '@preact/signals';
import { ApiError } from '../api/api-error.ts';

export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly isError: boolean;
  readonly requestId?: string;
}

export const toasts = signal<readonly Toast[]>([]);
let nextId = 1;

/** Tells the result of an action. Disappears after a while; an error stays until it is closed. */
export function tell(text: string): void {
  const id = add({ text, isError: false });
  setTimeout(() => dismiss(id), 6_000);
}

/** Tells that an action failed, and why. */
export function tellError(action: string, error: unknown): void {
  const { message, requestId } =
    error instanceof ApiError ? error : { message: String(error), requestId: undefined };
  add({
    text: `${action}: ${message}`,
    isError: true,
    ...(requestId !== undefined && { requestId }),
  });
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

function add(toast: Omit<Toast, 'id'>): number {
  const id = nextId++;
  toasts.value = [...toasts.value, { ...toast, id }].slice(-4);
  return id;
}
