// What a stack should run: its live revision with the highest number. That is its head, found by key however long the history is; should
// the head be deleted, the newest one that is not. Where the head lives both halves are the same row, so that either may be read first.

/** Of stack `s`, in the columns given; to be joined laterally. */
export const headOf = (columns: string): string => `(
    select ${columns} from (
      select ${columns} from deployment_objects where id = s.head_object_id and deleted_at is null
      union all
      (select ${columns} from deployment_objects where stack_id = s.id and deleted_at is null order by sequence_id desc limit 1)
    ) as live limit 1)`
