// The page of a sign-in link. The one-time token is in the fragment, which browsers never send; it goes to the broker in a body, and the
// address is replaced before anything else happens, so that the token is not in the history.
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { CallError, call } from '../api/call.ts'
import { rememberSignIn, useSession } from '../api/session.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { SignInForm } from './sign-in.tsx'

/** Survives the second run of effects in development; the token is used once. */
let exchange: Promise<void> | null = null
let linkToken: string | null = null

function takeToken(): string {
  linkToken ??= readFragment()
  return linkToken
}

function readFragment(): string {
  const fragment = location.hash.slice(1)
  history.replaceState(null, '', location.pathname)
  const named = new URLSearchParams(fragment).get('token')
  return named ?? decodeURIComponent(fragment)
}

async function exchangeToken(token: string): Promise<void> {
  try {
    await call('exchangeLoginLink', { body: { token } })
    rememberSignIn()
  } catch (error) {
    if (!(error instanceof CallError) || error.status !== 401) throw error
    throw new CallError('exchangeLoginLink', 'the link was used already, or it is older than five minutes', {
      requestId: error.requestId,
      status: 400,
      code: 'link_refused',
      next: 'ask for a new link, or sign in with a key',
    })
  }
}

export function LoginLink() {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const { session } = useSession()
  const [error, setError] = useState<Error | null>(null)
  const [isConfirmed, setConfirmed] = useState(false)
  const [taken] = useState(takeToken)
  // A link from somebody else would sign this browser in as another identity, so it does not replace a session by itself.
  const needsConfirmation = typeof session === 'object' && !isConfirmed && exchange === null
  const mayExchange = session === 'signed-out' || isConfirmed || exchange !== null
  useEffect(() => {
    if (!mayExchange) return
    const enter = async () => {
      await queries.invalidateQueries()
      await navigate({ to: '/', replace: true })
    }
    exchange ??= exchangeToken(taken)
    exchange.then(enter).catch((failure: unknown) => setError(failure instanceof Error ? failure : new Error(String(failure))))
  }, [queries, navigate, mayExchange, taken])
  return (
    <main id="content" className="sign-in">
      <div className="card sign-in-card">
        <h1>Sign in</h1>
        {needsConfirmation ? (
          <>
            <p className="ink-2">You are signed in already. The link replaces this session: use it only if you asked for it.</p>
            <div className="row">
              <button type="button" className="btn go" onClick={() => setConfirmed(true)}>
                Use the link
              </button>
              <button type="button" className="btn" onClick={() => void navigate({ to: '/', replace: true })}>
                Keep this session
              </button>
            </div>
          </>
        ) : null}
        {error === null && !needsConfirmation ? <p className="ink-2">Using the link…</p> : null}
        {error === null ? null : <ErrorCard error={error} />}
        {error === null ? null : (
          <SignInForm
            onSignedIn={() => {
              void queries.invalidateQueries()
              void navigate({ to: '/', replace: true })
            }}
          />
        )}
      </div>
    </main>
  )
}
