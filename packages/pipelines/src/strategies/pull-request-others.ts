// Other open pull requests of the same pipeline and environment: of promotions whose records are lost, and of the public controller.
// They are closed before ours opens, so that a person cannot merge an older revision over a newer one.
import { ForgeError, type PullRequest } from '../forges/forge.ts'
import { isOfEarlierRun } from './pull-request-identity.ts'
import type { Session } from './pull-request-session.ts'
import { compatibleBranch, findKey, runBranchPrefix, type Texts } from './pull-request-texts.ts'

const PUBLIC_AUTHOR = 'Promotion Server'
const COMMITS_MAX = 100

export async function closeOtherPulls(session: Session, texts: Texts): Promise<void> {
  const { forge, git, spec, input } = session
  const pulls = (await forge.listOpenPulls(spec.baseBranch, input.signal)).filter(({ head }) => head !== texts.branch)
  for (const pull of pulls) {
    const reason = await findReason(session, pull)
    if (reason === null) continue
    await closeWithComment(session, pull, `${reason} Replaced by promotion ${input.promotion.name} on branch ${texts.branch}.`)
    const tip = await git.readTip(pull.head, input.signal)
    if (tip === null || spec.keepBranch === true) continue
    const isDeletable = tip.authorName === PUBLIC_AUTHOR || (await isOfEarlierRun(session, tip))
    if (isDeletable) await git.deleteBranch({ branch: pull.head, expected: tip.sha }, input.signal)
  }
}

/** Closed first: a repetition finds it closed and adds no second comment. A comment is a help to readers, so its failure ends nothing. */
export async function closeWithComment({ forge, input }: Session, pull: PullRequest, comment: string): Promise<void> {
  await forge.closePull(pull, input.signal)
  await forge.comment(pull, comment, input.signal).catch((error: unknown) => {
    if (!(error instanceof ForgeError)) throw error
  })
}

/** Why the pull request is closed; null: it is not ours to close. The pull request of an open promotion is ended by its own record. */
async function findReason(session: Session, pull: PullRequest): Promise<string | null> {
  const { input } = session
  const key = findKey(pull)
  const isCompatible = pull.head === compatibleBranch(input)
  if (key !== null) {
    const isOurs = isCompatible || pull.head.startsWith(runBranchPrefix(input))
    return isOurs && !(await input.listOpenKeys()).has(key) ? 'The promotion of this pull request has ended.' : null
  }
  return isCompatible && (await isOfPublicController(session, pull.head))
    ? 'The controller that opened this pull request was replaced.'
    : null
}

/** All commits of the branch that are not in the base are by the public controller; none at all means that they are merged. */
export async function isOfPublicController({ git, spec, input }: Session, branch: string): Promise<boolean> {
  const authors = await git.listOwnAuthors({ branch, base: spec.baseBranch, max: COMMITS_MAX + 1 }, input.signal)
  return authors.length <= COMMITS_MAX && authors.every((author) => author === PUBLIC_AUTHOR)
}
