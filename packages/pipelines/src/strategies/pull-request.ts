// Pull request: one branch and one pull request per promotion, found again by its key after any crash. A person merges it.
import type { Effect } from '@brokkr/contract/pipelines/promotion.ts'
import { timeText } from '@brokkr/kube'
import type { PullRequest } from '../forges/forge.ts'
import { toLineDiff } from '../git/line-diff.ts'
import { buildChange, editAll, isOwnCommit, pushChange, readBase } from './pull-request-change.ts'
import { closeOtherPulls, closeWithComment } from './pull-request-others.ts'
import { configurationError, type PullRequestDeps, type Session, withSession } from './pull-request-session.ts'
import { hasKey, type Texts, textsOf } from './pull-request-texts.ts'
import type { AttemptInput, AttemptResult, EffectObserver, Strategy } from './strategy.ts'

export type { PullRequestDeps } from './pull-request-session.ts'

export function pullRequestStrategy(deps: PullRequestDeps): Strategy {
  const observer: EffectObserver = {
    observe: (input) => withSession(deps, input, async (session) => ({ outcome: 'observed', effect: await observe(session) })),
    withdraw: (input, comment) =>
      withSession(deps, input, async (session) => ({ outcome: 'withdrawn', effect: await withdraw(session, comment) })),
    readBase: (input) => withSession(deps, input, async (session) => ({ outcome: 'read', baseSha: await readBase(session) })),
    clean: (input) => withSession(deps, input, async (session) => ({ outcome: (await clean(session)) ? 'cleaned' : 'kept' })),
  }
  return {
    kind: 'pull-request',
    handles: (spec) => spec['pull-request'] !== undefined,
    run: (input) => withSession(deps, input, (session) => attempt(session)),
    preview: (input) =>
      withSession(deps, { ...input, saveProgress: () => Promise.resolve('stop') }, async (session) => ({
        outcome: 'previewed',
        diff: await preview(session),
      })),
    observer,
  }
}

const listPulls = ({ forge, spec, input }: Session, texts: Texts): Promise<readonly PullRequest[]> =>
  forge.findPulls({ head: texts.branch, base: spec.baseBranch }, input.signal)

async function attempt(session: Session): Promise<AttemptResult> {
  const { input } = session
  const texts = textsOf(input)
  const pulls = await listPulls(session, texts)
  const known = findByKey(pulls, input)
  if (known !== null) return adopted(known, texts)
  const change = await buildChange(session, texts)
  if (change.commitSha === null) return { outcome: 'applied', effect: { kind: 'none', baseSha: change.baseSha } }
  // E1
  const commitSha = await pushChange(session, texts, change.commitSha)
  const files = change.files.map(({ path }) => path)
  // A commit of a person is not recorded: it would count as ours at the next attempt.
  const own: Effect = commitSha === null ? {} : { baseSha: change.baseSha, commitSha, files }
  const progress: Effect = { kind: 'pull-request', branch: texts.branch, ...own }
  if ((await input.saveProgress(progress)) === 'stop') return { outcome: 'stopped' }
  await closeOtherPulls(session, texts)
  // E2
  return adopted(await openPull(session, texts, { pulls, files }), texts)
}

async function preview(session: Session): Promise<string> {
  const { git, input, spec } = session
  const sha = await readBase(session)
  const marked = await git.listMarkedFiles({ sha, paths: spec.paths ?? [] }, input.signal)
  const before = new Map(marked.map(({ path, content }) => [path, Buffer.from(content).toString('utf8')]))
  return editAll(session, marked)
    .map(({ path, content }) => toLineDiff(path, before.get(path) ?? '', Buffer.from(content).toString('utf8')))
    .join('')
}

/** Open before merged before closed: a closed one that a user replaced is not the end. */
function findByKey(pulls: readonly PullRequest[], { promotion }: AttemptInput): PullRequest | null {
  const ours = pulls.filter((pull) => hasKey(pull, promotion.spec.key))
  const inState = (state: PullRequest['state']) => ours.find((pull) => pull.state === state)
  return inState('open') ?? inState('merged') ?? inState('closed') ?? null
}

const adopted = (pull: PullRequest, { branch }: Texts): AttemptResult => ({
  outcome: pull.state === 'closed' ? 'abandoned' : 'applied',
  effect: { kind: 'pull-request', branch, ...effectOf(pull) },
})

function effectOf(pull: PullRequest): Effect {
  const open = pull.isMergeable === true ? 'mergeable' : 'open'
  const prState = pull.state === 'open' ? open : pull.state === 'merged' ? 'merged' : 'abandoned'
  return { prNumber: pull.number, prUrl: pull.url, prState, ...(pull.mergedSha === null ? {} : { mergedSha: pull.mergedSha }) }
}

async function openPull(
  session: Session,
  texts: Texts,
  { pulls, files }: { pulls: readonly PullRequest[]; files: readonly string[] },
): Promise<PullRequest> {
  const { forge, spec, input } = session
  const body = texts.body(files)
  const existing = pulls.find(({ state }) => state === 'open')
  // Of an earlier run under policy Update, or ours with its key edited away.
  if (existing !== undefined) return forge.updatePull(existing, { title: texts.title, body }, input.signal)
  const pull = { title: texts.title, body, head: texts.branch, base: spec.baseBranch, labels: spec.labels ?? [] }
  const created = await forge.createPull(pull, input.signal)
  if (created !== 'duplicate') return created
  const again = await listPulls(session, texts)
  const known = findByKey(again, input)
  if (known !== null) return known
  const other = again.find(({ state }) => state === 'open')
  if (other !== undefined) return forge.updatePull(other, { title: texts.title, body }, input.signal)
  throw configurationError('ForgeRefusedRequest', `the forge refused a pull request from ${texts.branch} to ${spec.baseBranch}`)
}

/** E3. A merged pull request loses its branch; an open one follows its base. */
async function observe(session: Session): Promise<Effect> {
  const { forge, input } = session
  const { prNumber } = input.promotion.status.effect ?? {}
  if (prNumber === undefined) return {}
  const pull = await forge.getPull(prNumber, input.signal)
  if (pull.state === 'merged') await deleteOwnBranch(session, pull)
  const rebuilt = pull.state === 'open' ? await followBase(session, pull) : {}
  return { ...effectOf(pull), ...rebuilt }
}

/** Rebuilds only our own commit, and only where the base changed an edited file or the forge reports a conflict. */
async function followBase(session: Session, pull: PullRequest): Promise<Effect> {
  const { git, input, spec } = session
  const { baseSha, commitSha } = input.promotion.status.effect ?? {}
  const base = await git.fetchBase(spec.baseBranch, input.signal)
  if (base.sha === baseSha || commitSha === undefined) return {}
  const tip = await git.readTip(pull.head, input.signal)
  const texts = textsOf(input)
  if (tip === null || !(await isOwnCommit(session, texts, tip))) return {}
  const change = await buildChange(session, texts)
  const rebuilt = { baseSha: change.baseSha, files: change.files.map(({ path }) => path) }
  // The same input gives the same commit: it was pushed, and a crash came before the record.
  if (change.commitSha === tip.sha) return { ...rebuilt, commitSha: tip.sha }
  if (change.commitSha === null || !(pull.isMergeable === false || (await isOutdated(session, tip.sha, base.sha)))) return {}
  const pushed = await git.push({ branch: pull.head, sha: change.commitSha, expected: tip.sha }, input.signal)
  if (pushed === 'lost') return {}
  return { ...rebuilt, commitSha: change.commitSha }
}

/** Whether the same edit on the new base gives other files than the tip has. */
async function isOutdated(session: Session, tipSha: string, baseSha: string): Promise<boolean> {
  const { git, input, spec } = session
  const paths = spec.paths ?? []
  const wanted = editAll(session, await git.listMarkedFiles({ sha: baseSha, paths }, input.signal))
  const present = new Map((await git.listMarkedFiles({ sha: tipSha, paths }, input.signal)).map((file) => [file.path, file.content]))
  return wanted.some(({ path, content }) => !Buffer.from(present.get(path) ?? []).equals(content))
}

async function withdraw(session: Session, comment: string): Promise<Effect> {
  const { forge, input, now } = session
  const { prNumber: number, withdrawnAt } = input.promotion.status.effect ?? {}
  const texts = textsOf(input)
  const pull = number === undefined ? findByKey(await listPulls(session, texts), input) : await forge.getPull(number, input.signal)
  const isOpen = pull?.state === 'open'
  // Recorded before it is closed: after a crash in between it does not look like a decision of a person.
  if (isOpen && withdrawnAt === undefined) await input.saveProgress({ withdrawnAt: timeText(now()) })
  if (isOpen) await closeWithComment(session, pull, comment)
  await deleteOwnBranch(session, pull ?? { head: texts.branch })
  if (pull === null) return {}
  return effectOf(isOpen ? { ...pull, state: 'closed' } : pull)
}

/** False: a pull request of the branch, into whatever base, is open, so it stays. */
async function clean(session: Session): Promise<boolean> {
  const { forge, input } = session
  const { branch } = textsOf(input)
  if ((await forge.findPulls({ head: branch }, input.signal)).some(({ state }) => state === 'open')) return false
  await deleteOwnBranch(session, { head: branch })
  return true
}

/** Only while its tip is a commit of the controller. */
async function deleteOwnBranch(session: Session, { head }: Pick<PullRequest, 'head'>): Promise<void> {
  const { git, input, spec } = session
  if (spec.keepBranch === true) return
  const tip = await git.readTip(head, input.signal)
  if (tip === null || !(await isOwnCommit(session, textsOf(input), tip))) return
  await git.deleteBranch({ branch: head, expected: tip.sha }, input.signal)
}
