// The frame of every page: rail, top bar, palette, and the dialog that asks to sign in again. Without a session only the API page is shown.
import { Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { useFeed, useSession } from '../api/session.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Keys } from './keys.tsx'
import { Palette } from './palette.tsx'
import { BottomTabs, Rail } from './rail.tsx'
import { SignIn, SignInForm } from './sign-in.tsx'
import { TopBar } from './top-bar.tsx'

export function Shell() {
  const { session, hasEnded, refresh } = useSession()
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  if (path === '/login') return <Outlet />
  if (session === 'unknown') return <Starting />
  if (session === 'signed-out' && !hasEnded) return path === '/docs' ? <OpenDocs /> : <SignIn />
  return (
    <>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <div className="app">
        <Rail />
        <TopBar openPalette={() => setPaletteOpen(true)} />
        <Main />
        <BottomTabs />
      </div>
      <Keys openPalette={() => setPaletteOpen(true)} />
      {isPaletteOpen ? <Palette onClose={() => setPaletteOpen(false)} /> : null}
      {hasEnded ? (
        <Dialog title="Sign in again" onClose={() => undefined}>
          <div className="pad">
            <p className="ink-2">The session ended. The page and what you typed are kept.</p>
            <SignInForm onSignedIn={() => void refresh()} />
          </div>
        </Dialog>
      ) : null}
    </>
  )
}

function Main() {
  const { state } = useFeed()
  const path = useRouterState({ select: ({ location }) => location.pathname })
  useEffect(() => {
    document.title = `${pageTitle(path)} · Brokkr`
  }, [path])
  return (
    <main id="content" className={state === 'stale' ? 'main feed-stale' : 'main'} tabIndex={-1}>
      <Outlet />
    </main>
  )
}

function pageTitle(path: string): string {
  const [first = ''] = path.split('/').slice(1)
  const words = first === '' ? 'fleet' : first.replaceAll('-', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

function OpenDocs() {
  return (
    <main id="content" className="main alone">
      <Outlet />
    </main>
  )
}

/** Shown for at most a moment, or while the broker does not respond. */
function Starting() {
  const [isSlow, setSlow] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 1500)
    return () => clearTimeout(timer)
  }, [])
  return (
    <main id="content" className="starting" aria-busy="true">
      <h1 className="sr-only">Brokkr</h1>
      {isSlow ? <p className="ink-2">The broker does not respond yet. This page tries again by itself.</p> : null}
    </main>
  )
}
