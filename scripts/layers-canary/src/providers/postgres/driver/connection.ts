export { Store } from '../store.ts';
