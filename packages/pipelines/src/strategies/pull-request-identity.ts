// Author of the controller's commits, and how these are told from commits of persons.
import { isIdentityOf } from '../git/identity.ts'
import type { RemoteCommit } from '../git/workspace.ts'
import type { Session } from './pull-request-session.ts'
import { ownerOfTip } from './pull-request-texts.ts'

export const AUTHOR = { name: 'Brokkr Pipelines', email: 'pipelines@brokkr.io' }

/** A person who amends a commit becomes its committer, or also its author. */
export function hasOwnIdentity({ spec }: Session, { author, committer }: RemoteCommit): boolean {
  return author === committer && [spec.author ?? AUTHOR, AUTHOR].some((own) => isIdentityOf(author, own))
}

/** Whether an earlier run made the tip: by its trailer and identity, or by the record of a run that had another author. */
export async function isOfEarlierRun(session: Session, tip: RemoteCommit): Promise<boolean> {
  if (ownerOfTip(tip, session.input) !== 'earlier-run') return false
  return hasOwnIdentity(session, tip) || (await session.input.listCommits()).has(tip.sha)
}
