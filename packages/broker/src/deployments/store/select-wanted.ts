// What a stack should run: the object that a hold pins it to, else its live revision with the highest number. Both are found by key however
// long the history is; should that object be deleted, the newest live one within the bound. Where it lives both halves are the same row, so
// that either may be read first.

/** The id of the wanted object of a row of stacks. */
export const wantedObjectId = (stack: string): string => `coalesce(${stack}.held_object_id, ${stack}.head_object_id)`

/** Of stack `s`, in the columns given; to be joined laterally. */
export const selectWanted = (columns: string): string => `(
    select ${columns} from (
      select ${columns} from deployment_objects where id = ${wantedObjectId('s')} and deleted_at is null
      union all
      (select ${columns} from deployment_objects where stack_id = s.id and deleted_at is null
         and sequence_id <= coalesce(s.held_sequence, 9223372036854775807) order by sequence_id desc limit 1)
    ) as live limit 1)`
