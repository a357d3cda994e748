export * from '../postgres/store.ts';
