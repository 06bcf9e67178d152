// SQL fragments and page keys that the stores of several features share.

/** Sets a row's time of change to a later value than before, so that a client with the earlier one notices the change. */
export const touched = `updated_at = greatest(now(), updated_at + interval '1 microsecond')`

/** A page begins after this key, in the order of the list. */
export interface NameKey {
  readonly after_name: string
  readonly after_id: string
}
export interface TimeKey {
  readonly after_at: string
  readonly after_id: string
}
