export class Worker {
  open(): Promise<unknown> {
    return import('../providers/sqlite/store.ts');
  }
}
