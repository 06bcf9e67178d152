// Operations whose work is not done by this release. They stand in the table with who may call them and what they will take and
// answer, so that clients can be written; whoever may call them is told so in one word.
import { ApiError } from '@brokkr/contract/error.ts'

export const notAvailable = async (): Promise<never> => {
  throw new ApiError('not_available', 'this release of the broker does not do this yet')
}
